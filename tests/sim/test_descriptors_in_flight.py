"""Kernels that access memory by address, and that read their arguments in pinned host memory."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

import debubble
from debubble.accelerator import ByAddress, Work, launch
from tests.sim.in_flight import expect_race, held_up, in_flight, kinds
from tests.sim.memory_pool import BLOCK, addresses, pool, sizes

pytestmark = pytest.mark.sim

POISON = 255


@triton.jit
def copy_blocks(sources, targets, sizes, WORDS: tl.constexpr):
    job = tl.program_id(0)
    words = tl.arange(0, WORDS)
    exists = words < tl.load(sizes + job) // 8
    source = tl.load(sources + job).to(tl.pointer_type(tl.int64))
    target = tl.load(targets + job).to(tl.pointer_type(tl.int64))
    tl.store(target + words, tl.load(source + words, mask=exists), mask=exists)


@triton.jit
def double(numbers, doubled, WIDTH: tl.constexpr):
    at = tl.arange(0, WIDTH)
    tl.store(doubled + at, tl.load(numbers + at) * 2)


@triton.jit
def store_behind(numbers, WIDTH: tl.constexpr):
    tl.store(numbers + WIDTH + tl.arange(0, WIDTH), 7.0)


@pytest.fixture
def memory(accelerator):
    return pool(accelerator)


def columns(source, from_, target, to, nbytes=BLOCK):
    """Returns (source addresses, target addresses, sizes), int64 [N] each in pinned memory, to copy
    blocks `from_` of `source` to blocks `to` of `target`."""
    numbers = addresses(source, from_), addresses(target, to), sizes(len(to), nbytes)
    return [torch.from_numpy(column).pin_memory() for column in numbers]


def swap(columns):
    by_address = ByAddress(*(column.numpy() for column in columns))
    grid = (len(columns[0]),)
    launch(copy_blocks, grid, *columns, WORDS=8, work=lambda: Work(by_address=by_address))


def test_a_kernel_goes_by_descriptors_in_pinned_memory(accelerator, memory):
    with debubble.record(accelerator) as timeline:
        swap(columns(memory.host, [1, 5], memory.device, [2, 3]))
    counts = timeline.counts()
    assert (counts["kernels"], counts["h2d_pinned"], counts["host_syncs"]) == (1, 0, 0)
    assert memory.on_device() == [0, 0, 1, 5, 0, 0, 0, 0]


def test_descriptors_overwritten_too_early_send_the_blocks_elsewhere(accelerator, memory):
    descriptors = columns(memory.host, [1, 5], memory.device, [2, 3])
    with in_flight(accelerator) as timeline:
        swap(descriptors)  # the load
        descriptors[1].numpy()[:] = addresses(memory.device, [6, 7])
    hazard = expect_race(timeline, "overwritten_in_flight", "copy_blocks")
    assert "the kernel was still in flight" in str(hazard)
    assert memory.on_device() == [0, 0, 0, 0, 0, 0, 1, 5]


def test_the_line_that_overwrote_the_descriptors_is_named(accelerator, memory):
    descriptors = columns(memory.host, [1], memory.device, [2])
    with in_flight(accelerator) as timeline:
        swap(descriptors)
        descriptors[0].fill_(memory.host[4].data_ptr())  # the write
    (hazard,) = timeline.hazards
    assert "# the write" in hazard.second.text
    assert memory.on_device()[2] == 4


def test_descriptors_may_be_reused_behind_the_kernel(accelerator, memory):
    descriptors = columns(memory.host, [1], memory.device, [2])
    with debubble.record(accelerator) as timeline:
        swap(descriptors)
        accelerator.current_stream().record_event().synchronize()
        descriptors[1].fill_(memory.device[3].data_ptr())
        swap(descriptors)
        accelerator.synchronize()
        descriptors[0].zero_()
    assert timeline.hazards == []
    assert memory.on_device() == [0, 0, 1, 1, 0, 0, 0, 0]


@pytest.mark.parametrize("value", [0, 8])
def test_descriptors_overwritten_with_nonsense_are_a_race_and_no_crash(accelerator, memory, value):
    """Descriptors that are overwritten before the kernel reads them are reported as a race, and no
    byte is moved. On a GPU the kernel would end with an illegal memory access."""
    descriptors = columns(memory.host, [1], memory.device, [2])
    with in_flight(accelerator) as timeline:
        swap(descriptors)
        descriptors[0].fill_(value)
    assert kinds(timeline) == ["overwritten_in_flight"]
    assert memory.on_device() == [0] * 8


def test_uploaded_descriptors_overwritten_too_early(accelerator, memory):
    pinned = torch.stack(columns(memory.host, [1, 5], memory.device, [2, 3])).pin_memory()
    numbers = pinned.clone()
    with in_flight(accelerator) as timeline:
        uploaded = pinned.to(accelerator.device, non_blocking=True)
        launch(
            copy_blocks,
            (2,),
            *uploaded.unbind(),
            WORDS=8,
            work=Work(by_address=ByAddress(*numbers.numpy())),
        )
        pinned.numpy()[:] = 0
    assert kinds(timeline) == ["overwritten_in_flight"]
    assert memory.on_device() == [0] * 8


def test_a_source_overwritten_before_the_kernel_read_it(accelerator, memory):
    with in_flight(accelerator) as timeline:
        swap(columns(memory.host, [1, 5], memory.device, [2, 3]))
        later = memory.device + 1
        memory.host[5].fill_(50)  # the write
        memory.host[6].fill_(60)
    expect_race(timeline, "overwritten_in_flight", "", "# the write")
    assert memory.on_device() == [0, 0, 1, 50, 0, 0, 0, 0]
    assert later.cpu()[:, 0].tolist() == [1, 1, 2, 51, 1, 1, 1, 1]


def test_a_store_by_a_kernel_is_poison_until_it_is_done(accelerator, memory):
    memory.device.fill_(9)
    descriptors = columns(memory.device, [1, 2], memory.host, [4, 5])
    with in_flight(accelerator) as timeline:
        swap(descriptors)
        assert memory.host.numpy()[3:7, 0].tolist() == [3, POISON, POISON, 6]
        swap(columns(memory.host, [4], memory.device, [7]))
    assert {hazard.kind for hazard in timeline.hazards} == {"read_before_sync"}
    assert memory.on_host() == [0, 1, 2, 3, 9, 9, 6, 7]
    assert memory.on_device() == [9] * 8


def test_what_a_kernel_leaves_of_its_targets_stays_as_it_was(accelerator, memory):
    """Bytes of a kernel's targets that the kernel doesn't write stay as they were: this one copies
    only whole words, so not the last 4 of 12 bytes."""
    memory.device.fill_(9)
    descriptors = columns(memory.device, [1], memory.host, [4], nbytes=12)
    swap(descriptors)
    assert memory.host[4, :13].tolist() == [POISON] * 12 + [4]
    accelerator.synchronize()
    assert memory.host[4, :13].tolist() == [9] * 8 + [4] * 5


def test_what_a_kernel_leaves_of_its_targets_may_still_be_on_its_way(accelerator, memory):
    memory.device[1].fill_(9)
    memory.device[2].fill_(8)
    accelerator.sleep(5)
    swap(columns(memory.device, [1], memory.host, [4]))
    swap(columns(memory.device, [2], memory.host, [4], nbytes=12))
    accelerator.synchronize()
    assert memory.host[4].tolist() == [8] * 8 + [9] * (BLOCK - 8)


def test_a_kernel_reads_what_is_on_its_way_and_the_host_does_not(accelerator, memory):
    memory.device[1].fill_(9)
    accelerator.sleep(5)
    swap(columns(memory.device, [1], memory.host, [4]))
    swap(columns(memory.host, [4], memory.device, [2]))
    assert memory.host[4].tolist() == [POISON] * BLOCK
    accelerator.synchronize()
    assert memory.on_device() == [0, 9, 9, 0, 0, 0, 0, 0]


def test_kernels_and_batches_take_what_the_other_is_bringing(accelerator, memory):
    stream = accelerator.stream()
    with debubble.record(accelerator) as timeline:
        memory.device[1].fill_(9)
        with held_up(accelerator, stream):
            swap(columns(memory.device, [1], memory.host, [4]))
            memory.load({4: 2})
            memory.store({2: 5})
            swap(columns(memory.host, [5, 3], memory.device, [6, 7]))
        stream.synchronize()
    assert timeline.hazards == []
    assert memory.on_device() == [0, 9, 9, 0, 0, 0, 9, 3]
    assert memory.on_host() == [0, 1, 2, 3, 9, 9, 6, 7]


BAD = {
    "pageable source": (lambda m, plain: (plain.data_ptr(), m.device[1].data_ptr(), 8), "pageable"),
    "pageable target": (lambda m, plain: (m.device[1].data_ptr(), plain.data_ptr(), 8), "pageable"),
    "null": (lambda m, plain: (0, m.device[1].data_ptr(), 8), "is null"),
    "nobody's": (lambda m, plain: (64, m.device[1].data_ptr(), 8), "unmapped"),
    "too long": (lambda m, plain: (m.host[1].data_ptr(), m.device[7].data_ptr(), 72), "runs past"),
    "negative": (lambda m, plain: (m.host[1].data_ptr(), m.device[7].data_ptr(), -8), "less than"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_piece_that_a_kernel_must_not_touch_is_named_and_nothing_runs(accelerator, memory, what):
    make, why = BAD[what]
    plain = torch.zeros(BLOCK, dtype=torch.uint8)
    good = memory.host[1].data_ptr(), memory.device[1].data_ptr(), BLOCK
    numbers = np.array([good, good, (good[0], good[1], 0), make(memory, plain)], np.int64).T.copy()
    work = Work(by_address=ByAddress(*numbers))
    descriptors = [torch.from_numpy(row).pin_memory() for row in numbers]
    with (
        debubble.record(accelerator) as timeline,
        pytest.raises(
            RuntimeError, match=rf"an illegal memory access: copy_blocks, descriptor 3 .*{why}"
        ),
    ):
        launch(copy_blocks, (4,), *descriptors, WORDS=8, work=work)
    assert timeline.events == []
    assert memory.on_device() == [0] * 8 and plain.sum() == 0


def test_the_link_sets_the_time_of_a_kernel_that_reads_over_it(accelerator):
    cost = accelerator._device.cost
    nbytes = 1 << 20
    host = torch.zeros(nbytes, dtype=torch.uint8, pin_memory=True)
    device = torch.zeros(nbytes, dtype=torch.uint8, device=accelerator.device)

    def took(source, target):
        numbers = (np.array([n], np.int64) for n in (source.data_ptr(), target.data_ptr(), nbytes))
        with debubble.record(accelerator) as timeline:
            accelerator.launch(lambda: None, None, work=Work(by_address=ByAddress(*numbers)))
        (kernel,) = [event for event in timeline.events if event.kind == "kernel"]
        return kernel.duration

    over_link = cost.triton_us + nbytes / cost.link_bandwidth
    assert took(host, device) == pytest.approx(over_link)
    assert took(device, host) == pytest.approx(over_link)
    assert took(device, device[: nbytes // 2].new_zeros(nbytes)) < over_link / 10


def test_pinned_arguments_of_any_kernel_are_read_when_it_runs(accelerator):
    pinned = torch.full((16,), 3.0, pin_memory=True)
    doubled = torch.zeros(16, device=accelerator.device)
    with in_flight(accelerator) as timeline:
        launch(double, (1,), pinned, doubled, WIDTH=16)  # the kernel
        more = doubled + 1
        pinned.fill_(5)  # the write
    expect_race(timeline, "overwritten_in_flight", "# the kernel", "# the write")
    assert doubled.tolist() == [10.0] * 16 and more.tolist() == [11.0] * 16


def test_other_columns_of_a_pinned_table_are_not_read(accelerator):
    pinned = torch.zeros(16, 4, pin_memory=True)
    with in_flight(accelerator) as timeline:
        out = accelerator.launch(lambda table: table + 1, None, pinned[:, 1:3])
        pinned[:, 0] = 5
        pinned[:, 3] = 5
        accelerator.synchronize()
        assert timeline.hazards == []
        out += 1
    assert out.tolist() == [[2.0, 2.0]] * 16


def test_a_plain_function_is_run_again_too(accelerator):
    pinned = torch.zeros(16, pin_memory=True)
    with in_flight(accelerator) as timeline:
        out = accelerator.launch(lambda table: table + 1, None, pinned)
        pinned.fill_(5)
    assert kinds(timeline) == ["overwritten_in_flight"]
    assert out.tolist() == [6.0] * 16


def test_what_a_kernel_writes_to_a_pinned_argument_is_no_overwriting(accelerator):
    pinned = torch.full((16,), 3.0, pin_memory=True)
    with debubble.record(accelerator) as timeline:
        launch(double, (1,), pinned, pinned, WIDTH=16)
        launch(double, (1,), pinned, pinned, WIDTH=16)
        accelerator.synchronize()
    assert timeline.hazards == []
    assert pinned.tolist() == [12.0] * 16


def test_to_run_all_again_changes_nothing_that_the_host_may_have_back(accelerator, memory):
    """Sim runs work again when an earlier copy turns out to be overwritten, but changes nothing
    that the host may have reused meanwhile: two kernels are done, and their inputs have new
    values."""
    side = accelerator.stream()
    numbers = torch.full((16,), 3.0, pin_memory=True)
    total = torch.zeros(16, device=accelerator.device)
    side.wait_stream(accelerator.current_stream())
    with in_flight(accelerator) as timeline:
        accelerator.copy_bytes(memory.host[1].data_ptr(), memory.device[1].data_ptr(), BLOCK)
        with side:
            swap(columns(memory.host, [3], memory.device, [3]))
            launch(double, (1,), numbers, numbers, WIDTH=16)
            accelerator.launch(lambda total, numbers: total.add_(numbers), None, total, numbers)
        side.synchronize()
        assert numbers.tolist() == [6.0] * 16
        numbers.fill_(7)
        memory.host[3].fill_(70)
        memory.host[1].fill_(10)
    assert kinds(timeline) == ["overwritten_in_flight"]
    assert numbers.tolist() == [7.0] * 16 and memory.on_host()[3] == 70
    assert memory.on_device() == [0, 10, 0, 3, 0, 0, 0, 0]
    assert total.tolist() == [6.0] * 16


def test_a_write_behind_an_argument_is_caught_beside_pinned_ones(accelerator):
    memory = torch.zeros(16, device=accelerator.device)
    pinned = torch.zeros(16, pin_memory=True)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="outside the memory of its argument"):
            launch(store_behind, (1,), pinned, WIDTH=16)
    memory.copy_(pinned, non_blocking=True)
    assert memory.tolist() == [0.0] * 16
    assert not accelerator._device.in_flight.uploads


def test_a_graph_goes_by_the_descriptors_of_its_replay(accelerator, memory):
    descriptors = columns(memory.host, [1], memory.device, [2])
    graph = accelerator.graph()
    with graph.capture():
        swap(descriptors)
    assert memory.on_device() == [0] * 8
    graph.replay()
    accelerator.synchronize()
    assert memory.on_device()[2] == 1
    memory.host[1].fill_(7)
    with debubble.record(accelerator) as timeline:
        graph.replay()
        accelerator.synchronize()
    assert timeline.counts()["kernels"] == 1 and timeline.hazards == []
    assert memory.on_device()[2] == 7


def test_a_replay_reads_its_descriptors_until_it_is_done(accelerator, memory):
    descriptors = columns(memory.host, [1], memory.device, [2])
    graph = accelerator.graph()
    with graph.capture():
        swap(descriptors)
    with in_flight(accelerator) as timeline:
        graph.replay()
        descriptors[1].fill_(memory.device[3].data_ptr())
    assert kinds(timeline) == ["overwritten_in_flight"]
    assert memory.on_device() == [0, 0, 0, 1, 0, 0, 0, 0]


def test_kernels_by_address_leave_nothing_once_they_are_done(accelerator, memory):
    descriptors = columns(memory.host, [1], memory.device, [2])
    for _ in range(50):
        swap(descriptors)
    accelerator.synchronize()
    in_flight = accelerator._device.in_flight
    assert not in_flight.uploads and not in_flight.tape.steps and not in_flight._queue
