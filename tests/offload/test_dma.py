"""Copies of any size by the copy engine."""

import pytest
import torch

import debubble
from solutions.offload import copy_batch
from tests.common import claims
from tests.common.refusals import expect_refused

from . import memory

ODD_SIZES = [1, 7, 8, 4095, 4096, 28 * 1024, 28 * 1024 + 3]


@pytest.fixture(params=[True, False], ids=["in one call", "one by one"])
def with_and_without_the_call(request, accelerator, monkeypatch):
    if not request.param:
        monkeypatch.setattr(type(accelerator), "has_copy_batch", False)
    return request.param


def expect_copied(accelerator, sizes, **options):
    memory.swap(accelerator, sizes, **options).expect_copied_by(copy_batch)


def calls_of(accelerator, monkeypatch, name) -> list:
    """Returns a list to which every call of the accelerator's method `name`, from now on, adds its
    (args, options)."""
    calls, original = [], getattr(type(accelerator), name)

    def noting(self, *args, **options):
        calls.append((args, options))
        return original(self, *args, **options)

    monkeypatch.setattr(type(accelerator), name, noting)
    return calls


@pytest.mark.parametrize("pinned", [True, False])
@pytest.mark.parametrize("to_device", [True, False])
def test_pieces_of_all_sizes_arrive(accelerator, to_device, pinned, with_and_without_the_call):
    sizes = memory.FACTS_SIZES + ODD_SIZES
    expect_copied(accelerator, sizes, to_device=to_device, pinned=pinned, guard=33)


@pytest.mark.parametrize("number", [1, 12, 13, 15, 16, 17])
def test_any_number_of_pieces(accelerator, number, with_and_without_the_call):
    expect_copied(accelerator, [100] * number)


def test_a_hundred_thousand_pieces(accelerator):
    expect_copied(accelerator, [8] * 100_000, guard=16)


def test_addresses_of_any_alignment(accelerator):
    expect_copied(accelerator, [5, 64, 3], shift=3)


def test_from_device_to_device(accelerator):
    source = torch.arange(64, dtype=torch.uint8).to(accelerator.device)
    target = torch.zeros_like(source)
    starts, sizes = torch.tensor([8, 40]), torch.tensor([3, 16])
    with accelerator.stream():
        copy_batch(source.data_ptr() + starts, target.data_ptr() + starts, sizes)
    accelerator.synchronize()
    assert target.nonzero().flatten().tolist() == [*range(8, 11), *range(40, 56)]
    assert torch.equal(target[40:56], source[40:56])


@pytest.mark.parametrize("sizes", [[], [0], [0] * 20])
def test_nothing_to_copy_is_no_copy_on_any_stream(accelerator, sizes, with_and_without_the_call):
    swap = memory.swap(accelerator, sizes)
    with debubble.record(accelerator) as timeline:
        copy_batch(*swap.descriptors)
    assert timeline.events == []
    swap.expect_untouched()


def test_pieces_of_no_bytes_are_left_out(accelerator, with_and_without_the_call):
    expect_copied(accelerator, [0, 64, 0, 8, 0])


@pytest.mark.parametrize("to_device", [True, False])
def test_one_copy_and_nobody_waits(accelerator, to_device):
    swap = memory.swap(accelerator, [64] * 20, to_device=to_device)
    stream = accelerator.stream()

    def call():
        with stream:
            copy_batch(*swap.descriptors)

    counts = claims.expect_no_wait(accelerator, call)
    assert (counts["h2d_pinned"], counts["d2h"], counts["kernels"]) == (to_device, not to_device, 0)


def test_without_the_call_each_piece_is_a_copy(accelerator, monkeypatch):
    monkeypatch.setattr(type(accelerator), "has_copy_batch", False)
    swap = memory.swap(accelerator, [64] * 20)
    counts = claims.counts_of(accelerator, lambda: copy_batch(*swap.descriptors))
    assert (counts["h2d_pinned"], counts["host_syncs"]) == (20, 0)


@pytest.mark.parametrize(
    ("to_device", "asked", "heeded"),
    [(True, True, True), (True, False, False), (False, True, False)],
)
def test_any_order_is_for_sources_on_the_host(accelerator, monkeypatch, to_device, asked, heeded):
    calls = calls_of(accelerator, monkeypatch, "copy_batch")
    swap = memory.swap(accelerator, [64] * 3, to_device=to_device)
    swap.expect_copied_by(copy_batch, is_src_access_order_any=asked)
    assert [options["any_order"] for _, options in calls] == [heeded]


def test_a_store_waits_for_earlier_work_of_its_stream(accelerator):
    """A store by DMA copies the bytes that earlier work of its stream wrote, even with
    `is_src_access_order_any`, since its source is on the device."""
    swap = memory.swap(accelerator, [64] * 3, to_device=False)
    with accelerator.stream():
        accelerator.sleep(20)
        swap.source.fill_(7)
        copy_batch(*swap.descriptors, is_src_access_order_any=True)
    accelerator.synchronize()
    for start in swap.dst_addrs.tolist():
        offset = start - swap.target.data_ptr()
        assert swap.target[offset : offset + 64].tolist() == [7] * 64


def test_descriptors_may_be_changed_at_once(accelerator, with_and_without_the_call):
    swap = memory.swap(accelerator, [64] * 20)
    with debubble.record(accelerator) as timeline:
        with accelerator.stream():
            accelerator.sleep(5)
            copy_batch(*swap.descriptors)
        for column in swap.descriptors:
            column.fill_(-1)
    assert timeline.hazards == []
    swap.expect_copied()


def test_what_the_driver_refuses_is_said_with_the_addresses(accelerator, monkeypatch):
    def refusing(self, source, target, nbytes):
        raise RuntimeError("the driver says no")

    monkeypatch.setattr(type(accelerator), "has_copy_batch", False)
    monkeypatch.setattr(type(accelerator), "copy_bytes", refusing)
    swap = memory.swap(accelerator, [64])
    source, target = int(swap.src_addrs), int(swap.dst_addrs)
    where = f"64 bytes from {source:#x} to {target:#x}: the driver says no"
    with pytest.raises(RuntimeError, match=where):
        copy_batch(*swap.descriptors)


BAD = {
    "descriptor 2: -8 bytes: sizes are at least 0": (2, -8),
    "descriptor 2: its source, 64 bytes at 0x0, is no memory": (0, 0),
    "descriptor 2: its target, 64 bytes at 0x0, is no memory": (1, 0),
    "descriptor 2: its target, 64 bytes at 0x1000, is not in device memory": (1, 4096),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_descriptors_are_refused_and_nothing_moves(accelerator, message):
    swap = memory.swap(accelerator, [64] * 5)
    field, value = BAD[message]
    swap.descriptors[field][2] = value
    expect_refused(
        accelerator, lambda: copy_batch(*swap.descriptors), message, unchanged=(swap.target,)
    )


def test_a_pools_lists_are_not_copied_before_the_driver_reads_them(accelerator, monkeypatch):
    swap = memory.swap(accelerator, [64] * 20)
    calls, columns = calls_of(accelerator, monkeypatch, "copy_lists"), swap.pool_descriptors
    swap.expect_copied_by(copy_batch, *columns)
    assert [args for args, _ in calls] == [(*(column.data_ptr() for column in columns), 20)]
