"""Memory by address, on a GPU and on sim alike: its owner, copies of it, and its registration."""

import threading
from contextlib import ExitStack

import numpy as np
import pytest
import torch

import debubble
from debubble.contract.addresses import MOST_REGISTERED

PIECE = 64
GUARD = 255


@pytest.fixture
def device(accelerator):
    """Returns uint8 [1024] on the device, full of guard bytes."""
    return torch.full((1024,), GUARD, dtype=torch.uint8, device=accelerator.device)


@pytest.fixture
def stream(accelerator, device):
    """Returns a stream that waits for the device's memory to be filled."""
    stream = accelerator.stream()
    stream.wait_stream(accelerator.current_stream())
    return stream


@pytest.fixture
def pinned(accelerator):
    if not accelerator.pin_memory:
        pytest.skip("no memory can be pinned here")
    return torch.arange(1024).to(torch.uint8).pin_memory()


@pytest.fixture
def batches(accelerator):
    if not accelerator.has_copy_batch:
        pytest.skip("this machine has no batch copy")


def pieces(source: torch.Tensor, target: torch.Tensor, rows: dict[int, int]):
    """Returns (source addresses, target addresses, sizes) of a batch that copies row i of `source`,
    of PIECE bytes, to row rows[i] of `target`, for each i in `rows`."""
    sources = source.data_ptr() + PIECE * np.array(list(rows), dtype=np.int64)
    targets = target.data_ptr() + PIECE * np.array(list(rows.values()), dtype=np.int64)
    return sources, targets, np.full(len(rows), PIECE)


def counts(**some: int) -> dict[str, int]:
    kinds = ("host_syncs", "h2d_pageable", "h2d_pinned", "d2h", "d2d", "kernels", "graph_launches")
    return dict.fromkeys(kinds, 0) | some


@pytest.fixture
def page_aligned(accelerator):
    """Returns uint8 [4 pages of 4096 bytes] of pageable memory that begins at the start of a
    page."""
    if not accelerator.pin_memory:
        pytest.skip("no memory can be pinned here")
    memory = torch.zeros(5 * 4096, dtype=torch.uint8)
    start = -memory.data_ptr() % 4096
    return memory[start : start + 4 * 4096]


def test_an_address_in_a_tensor_knows_its_memory(accelerator, device, pinned):
    for tensor, place in ((device, "device"), (pinned, "pinned")):
        found = accelerator.memory_at(tensor.data_ptr())
        assert found.place == place
        assert found.start <= tensor.data_ptr()
        assert found.start + found.nbytes >= tensor.data_ptr() + 1024
        assert accelerator.memory_at(tensor.data_ptr() + 1023) == found


def test_pageable_memory_and_null_are_nobodys(accelerator):
    assert accelerator.memory_at(torch.zeros(8).data_ptr()) is None
    assert accelerator.memory_at(0) is None
    assert accelerator.memory_at(8) is None


def test_one_copy_goes_where_its_addresses_say(accelerator, device, pinned):
    back = torch.zeros(PIECE, dtype=torch.uint8).pin_memory()
    with debubble.record(accelerator) as timeline:
        accelerator.copy_bytes(pinned.data_ptr() + 3, device.data_ptr() + 100, PIECE)
        accelerator.copy_bytes(device.data_ptr() + 100, device.data_ptr() + 500, PIECE)
        accelerator.copy_bytes(device.data_ptr() + 500, back.data_ptr(), PIECE)
        accelerator.current_stream().synchronize()
    assert back.tolist() == pinned[3 : 3 + PIECE].tolist()
    expected = torch.full((1024,), GUARD, dtype=torch.uint8)
    expected[100 : 100 + PIECE] = expected[500 : 500 + PIECE] = pinned[3 : 3 + PIECE]
    assert torch.equal(device.cpu(), expected)
    assert timeline.counts() == counts(h2d_pinned=1, d2d=1, d2h=1, host_syncs=1)


def test_a_copy_by_address_has_its_line_and_its_call(accelerator, device, pinned):
    with debubble.record(accelerator) as timeline:
        pinned.to(accelerator.device, non_blocking=True)
        accelerator.copy_bytes(pinned.data_ptr(), device.data_ptr(), PIECE)  # line: by address
        pinned.to(accelerator.device, non_blocking=True)
    copies = [event for event in timeline.events if event.kind == "copy"]
    assert [copy.bytes for copy in copies] == [1024, PIECE, 1024]
    call = timeline.events[copies[1].launched_by]
    assert call.kind == "launch" and call.start <= copies[1].start
    assert call.source == copies[1].source
    assert "# line: by address" in call.source.text


def test_a_copy_of_nothing_is_nothing(accelerator, device, pinned):
    with debubble.record(accelerator) as timeline:
        accelerator.copy_bytes(pinned.data_ptr(), device.data_ptr(), 0)
        accelerator.copy_bytes(pinned.data_ptr(), device.data_ptr(), 8)  # line: eight
    (copy,) = [event for event in timeline.events if event.kind == "copy"]
    assert copy.bytes == 8 and "# line: eight" in copy.source.text


def test_null_and_less_than_nothing_are_refused_and_what_follows_goes_on(
    accelerator, device, pinned
):
    with debubble.record(accelerator) as timeline:
        for wrong in ((pinned.data_ptr(), 0, PIECE), (pinned.data_ptr(), device.data_ptr(), -8)):
            with pytest.raises(RuntimeError, match="invalid value"):
                accelerator.copy_bytes(*wrong)
        accelerator.copy_bytes(pinned.data_ptr(), device.data_ptr(), PIECE)  # line: good
    (copy,) = [event for event in timeline.events if event.kind == "copy"]
    assert "# line: good" in copy.source.text
    assert (device[:PIECE].cpu() + 1).tolist() == list(range(1, PIECE + 1))


@pytest.mark.usefixtures("batches")
@pytest.mark.parametrize("any_order", [False, True])
def test_a_batch_copies_its_pieces_and_nothing_else(accelerator, device, pinned, any_order, stream):
    rows = {0: 3, 5: 1, 2: 15}
    with stream:
        accelerator.copy_batch(*pieces(pinned, device, rows), any_order=any_order)
    stream.synchronize()
    expected = torch.full((16, PIECE), GUARD, dtype=torch.uint8)
    for source, target in rows.items():
        expected[target] = pinned.view(16, PIECE)[source]
    assert torch.equal(device.cpu().view(16, PIECE), expected)


@pytest.mark.usefixtures("batches")
def test_a_batch_brings_pieces_back_to_the_host(accelerator, pinned):
    device = pinned.to(accelerator.device)
    back = torch.zeros(1024, dtype=torch.uint8).pin_memory()
    stream = accelerator.stream()
    stream.wait_stream(accelerator.current_stream())
    with debubble.record(accelerator) as timeline:
        with stream:
            accelerator.copy_batch(*pieces(device, back, {1: 0, 2: 7}))
        stream.synchronize()
    assert timeline.counts() == counts(d2h=1, host_syncs=1)
    expected = torch.zeros(16, PIECE, dtype=torch.uint8)
    expected[0], expected[7] = pinned.view(16, PIECE)[1:3]
    assert torch.equal(back.view(16, PIECE), expected)


@pytest.mark.usefixtures("batches")
def test_a_batch_is_one_copy_and_one_launch_of_its_line(accelerator, device, pinned, stream):
    with debubble.record(accelerator) as timeline, stream:
        accelerator.copy_batch(*pieces(pinned, device, {0: 1, 2: 3, 4: 5}))  # line: first
        accelerator.copy_batch(*pieces(pinned, device, {6: 7}))  # line: second
    assert timeline.counts() == counts(h2d_pinned=2)
    copies = [event for event in timeline.events if event.kind == "copy"]
    assert [copy.bytes for copy in copies] == [3 * PIECE, PIECE]
    assert not any(copy.pageable for copy in copies)
    (lane,) = {copy.lane for copy in copies}
    assert lane != "stream 0"
    for copy, line in zip(copies, ("first", "second"), strict=True):
        call = timeline.events[copy.launched_by]
        assert call.kind == "launch" and call.lane == "host" and call.thread is None
        assert f"# line: {line}" in copy.source.text and call.source == copy.source
    assert [event.kind for event in timeline.events].count("launch") == 2


@pytest.mark.usefixtures("batches")
def test_the_default_stream_takes_no_batch(accelerator, device, pinned, stream):
    with debubble.record(accelerator) as timeline:
        with pytest.raises(RuntimeError, match="no work on the default stream: enter a stream"):
            accelerator.copy_batch(*pieces(pinned, device, {0: 1}))
        with stream:
            accelerator.copy_batch(*pieces(pinned, device, {2: 3}))  # line: on a stream
        stream.synchronize()
    (copy,) = [event for event in timeline.events if event.kind == "copy"]
    assert "# line: on a stream" in copy.source.text
    assert device[PIECE : 2 * PIECE].tolist() == [GUARD] * PIECE


@pytest.mark.usefixtures("batches")
@pytest.mark.parametrize("nbytes", [0, -8])
def test_a_batch_that_is_refused_copies_nothing_and_the_next_one_goes_on(
    accelerator, device, pinned, nbytes, stream
):
    sources, targets, sizes = pieces(pinned, device, {0: 1, 2: 3})
    sizes[1] = nbytes
    with debubble.record(accelerator) as timeline:
        with stream:
            with pytest.raises(RuntimeError, match=rf"invalid.*descriptor 1 .*{nbytes} bytes"):
                accelerator.copy_batch(sources, targets, sizes)
            accelerator.copy_batch(*pieces(pinned, device, {4: 5}))  # line: the next
        stream.synchronize()
    (copy,) = [event for event in timeline.events if event.kind == "copy"]
    assert copy.bytes == PIECE and "# line: the next" in copy.source.text
    assert device[: 5 * PIECE].tolist() == [GUARD] * 5 * PIECE
    assert (device + 1).tolist()[5 * PIECE] == pinned[4 * PIECE] + 1


@pytest.mark.usefixtures("batches")
def test_a_batch_of_nothing_is_nothing_on_any_stream(accelerator):
    nothing = np.empty(0, dtype=np.int64)
    with debubble.record(accelerator) as timeline:
        accelerator.copy_batch(nothing, nothing, nothing)
    assert timeline.events == []


@pytest.mark.usefixtures("batches")
def test_a_batch_takes_int64_arrays_of_one_length(accelerator, device, pinned):
    sources, targets, sizes = pieces(pinned, device, {0: 1, 2: 3})
    with accelerator.stream():
        for wrong in (sizes.astype(np.int32), sizes[:1], np.repeat(sizes, 2)[::2], sizes.tolist()):
            with pytest.raises(ValueError):
                accelerator.copy_batch(sources, targets, wrong)


@pytest.mark.usefixtures("batches")
def test_nothing_here_makes_the_host_wait(accelerator, device, pinned, stream):
    with debubble.find_host_syncs(accelerator) as report, debubble.no_host_syncs(), stream:
        accelerator.memory_at(device.data_ptr())
        accelerator.copy_bytes(pinned.data_ptr(), device.data_ptr(), PIECE)
        accelerator.copy_batch(*pieces(pinned, device, {1: 1}))
    assert report.timeline.counts() == counts(h2d_pinned=2)
    assert report.findings == []


@pytest.mark.usefixtures("batches")
def test_another_thread_copies_under_its_own_name(accelerator, device, pinned, stream):

    def load():
        with stream:
            accelerator.copy_bytes(pinned.data_ptr(), device.data_ptr(), PIECE)
            accelerator.copy_batch(*pieces(pinned, device, {1: 1}))

    with debubble.record(accelerator) as timeline:
        thread = threading.Thread(target=load, name="loader")
        thread.start()
        thread.join()
    assert timeline.counts() == counts(h2d_pinned=2)
    assert {event.thread for event in timeline.events} == {"loader"}
    assert device[: 2 * PIECE].tolist() == pinned[: 2 * PIECE].tolist()


def test_registered_memory_is_pinned_until_it_is_not(accelerator, device, page_aligned):
    address, nbytes = page_aligned.data_ptr(), page_aligned.numel()
    accelerator.register_host_memory(address, nbytes)
    try:
        assert accelerator.memory_at(address + 4096) == ("pinned", address, nbytes)
        with debubble.record(accelerator) as timeline:
            accelerator.copy_bytes(address, device.data_ptr(), PIECE)
        assert timeline.counts() == counts(h2d_pinned=1)
    finally:
        accelerator.unregister_host_memory(address)
    assert accelerator.memory_at(address) is None
    assert device[: PIECE + 1].tolist() == [0] * PIECE + [GUARD]


def test_memory_is_registered_once_and_pytorch_goes_on_after_the_refusal(
    accelerator, device, page_aligned
):
    address = page_aligned.data_ptr()
    accelerator.register_host_memory(address, 4096)
    try:
        with pytest.raises(RuntimeError, match="already"):
            accelerator.register_host_memory(address, 4096)
    finally:
        accelerator.unregister_host_memory(address)
    with pytest.raises(RuntimeError, match=r"(?i)registered"):
        accelerator.unregister_host_memory(address)
    assert (device[:1] - 1).item() == GUARD - 1


def test_memory_that_is_registered_in_parts_is_one_range(accelerator, page_aligned):
    address = page_aligned.data_ptr()
    parts = [(address + 4096, 4096), (address, 4096), (address + 2 * 4096, 2 * 4096)]
    for part in parts:
        accelerator.register_host_memory(*part)
    try:
        for at in (0, 4095, 4096, 16383):
            assert accelerator.memory_at(address + at) == ("pinned", address, 4 * 4096)
    finally:
        for start, _ in parts:
            accelerator.unregister_host_memory(start)
    assert accelerator.memory_at(address) is None


def test_what_is_left_of_memory_that_was_registered_in_parts(accelerator, page_aligned):
    starts = [page_aligned.data_ptr() + 4096 * page for page in range(3)]
    with ExitStack() as registered:
        for start in starts:
            accelerator.register_host_memory(start, 4096)
        for start in (starts[0], starts[2]):
            registered.callback(accelerator.unregister_host_memory, start)
        assert accelerator.memory_at(starts[1]) == ("pinned", starts[0], 3 * 4096)
        accelerator.unregister_host_memory(starts[1])
        assert accelerator.memory_at(starts[1]) is None
        for start in (starts[0], starts[2]):
            assert accelerator.memory_at(start) == ("pinned", start, 4096)


def test_so_much_memory_at_once_that_drivers_fail_is_refused(accelerator, page_aligned):
    with pytest.raises(RuntimeError, match=r"less than .* \(512 GiB\) at a time"):
        accelerator.register_host_memory(page_aligned.data_ptr(), MOST_REGISTERED)


@pytest.mark.gpu
def test_a_copy_in_a_capture_is_the_replays(accelerator, device, pinned):
    graph = accelerator.graph()
    with debubble.record(accelerator) as captured, graph.capture():
        accelerator.copy_bytes(pinned.data_ptr(), device.data_ptr(), PIECE)
    assert captured.counts()["h2d_pinned"] == 0
    assert device[0].item() == GUARD
    with debubble.record(accelerator) as timeline:
        graph.replay()
        accelerator.copy_bytes(pinned.data_ptr(), device.data_ptr(), 8)  # line: by address
    assert timeline.counts() == counts(graph_launches=1, h2d_pinned=2)
    first, second = [event for event in timeline.events if event.kind == "copy"]
    assert timeline.events[first.launched_by].kind == "graph_launch"
    assert "# line: by address" in second.source.text
    assert device[: PIECE + 1].tolist() == [*range(PIECE), GUARD]


@pytest.mark.gpu
def test_with_an_older_driver_copies_go_one_at_a_time(monkeypatch, accelerator, device, pinned):
    from debubble.cuda.accelerator import CudaAccelerator
    from debubble.cuda.driver.driver import Driver

    monkeypatch.setattr(Driver, "version", 12060)
    lacking = CudaAccelerator()
    assert not lacking.has_copy_batch
    with lacking.stream(), pytest.raises(RuntimeError, match="a driver of CUDA"):
        lacking.copy_batch(*pieces(pinned, device, {0: 1}))
    lacking.copy_bytes(pinned.data_ptr(), device.data_ptr(), PIECE)
    assert device[: PIECE + 1].tolist() == [*range(PIECE), GUARD]
