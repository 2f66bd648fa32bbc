"""The owner of an address on sim, and accesses that are refused before they do harm."""

import io
import subprocess
import sys

import numpy as np
import pytest
import torch

import debubble
from debubble.accelerator import ByAddress
from debubble.sim.memory.address_map import AddressMap
from debubble.sim.memory.blocks import ALLOCATIONS
from tests.sim.memory_pool import BLOCK, pool

pytestmark = pytest.mark.sim


def test_any_address_of_an_allocation_leads_to_all_of_it(accelerator):
    cache = torch.zeros(6, 32, device=accelerator.device)
    start = cache.data_ptr()
    for view in (cache, cache[3], cache[3, 5:], cache.t()[1:]):
        assert accelerator.memory_at(view.data_ptr()) == ("device", start, 6 * 32 * 4)
    assert accelerator.memory_at(start + 6 * 32 * 4 - 1).start == start


def test_pinned_memory_is_pinned_and_the_rest_is_nobodys(accelerator):
    pinned, pageable = torch.zeros(5000, pin_memory=True), torch.zeros(5000)
    place, start, nbytes = accelerator.memory_at(pinned[4000:].data_ptr())
    assert place == "pinned"
    assert start <= pinned.data_ptr() and start + nbytes >= pinned.data_ptr() + 20_000
    for address in (pageable.data_ptr(), 0, 8, -8):
        assert accelerator.memory_at(address) is None


def test_memory_that_was_freed_is_nobodys(accelerator):
    blocks = len(ALLOCATIONS.blocks)
    for make in (
        lambda: torch.zeros(4096, device=accelerator.device),
        lambda: torch.zeros(4096, pin_memory=True),
    ):
        tensor = make()
        address = tensor.data_ptr()
        view = tensor[7:]
        del tensor
        assert accelerator.memory_at(address) is not None
        del view
        assert accelerator.memory_at(address) is None
    assert len(ALLOCATIONS.blocks) == blocks


def test_memory_that_is_resized_is_found_where_it_went(accelerator):
    tensor = torch.zeros(100_000, device=accelerator.device)
    before = tensor.data_ptr()
    assert accelerator.memory_at(before) == ("device", before, 400_000)
    tensor.resize_(200_000)
    assert accelerator.memory_at(before) is None
    assert accelerator.memory_at(tensor.data_ptr()) == ("device", tensor.data_ptr(), 800_000)


def test_a_tensor_from_a_file_has_its_memory(accelerator):
    file = io.BytesIO()
    torch.save(torch.arange(10.0), file)
    file.seek(0)
    tensor = torch.load(file, map_location=accelerator.device)
    assert accelerator.memory_at(tensor.data_ptr()).place == "device"


def test_new_memory_is_found_beside_old(accelerator):
    kept = []
    for number in range(40):
        kept.append(torch.zeros(50 + number, device=accelerator.device))
        if number % 3 == 0:
            del kept[number // 5]
        for tensor in kept:
            at = accelerator.memory_at(tensor.data_ptr())
            assert at == ("device", tensor.data_ptr(), tensor.nbytes)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (lambda p: (0, p.device.data_ptr(), 8), r"source 0x0, 8 bytes\) is null"),
        (lambda p: (p.host.data_ptr(), 0, 8), r"target 0x0, 8 bytes\) is null"),
        (lambda p: (p.host.data_ptr(), p.device.data_ptr(), 513), "runs past the end"),
        (lambda p: (p.device[7].data_ptr(), p.host.data_ptr(), 65), "runs past the end"),
        (lambda p: (p.host.data_ptr(), p.host.data_ptr() + 64, 8), "in no device memory"),
        (lambda p: (p.host.data_ptr(), p.device.data_ptr(), -1), "-1 bytes"),
    ],
)
def test_a_copy_that_a_driver_would_refuse_or_crash_on(accelerator, wrong, why):
    memory = pool(accelerator)
    with debubble.record(accelerator) as timeline, pytest.raises(RuntimeError, match=why):
        accelerator.copy_bytes(*wrong(memory))
    assert timeline.events == []
    assert memory.on_device() == [0] * 8 and memory.on_host() == list(range(8))


def test_memory_registered_in_parts_is_one_range_and_a_piece_may_cross_the_parts(accelerator):
    memory = pool(accelerator)
    plain = torch.arange(4 * BLOCK, dtype=torch.uint8)
    start = plain.data_ptr()
    for part in range(4):
        accelerator.register_host_memory(start + part * BLOCK, BLOCK)
    assert accelerator.memory_at(start + 100) == ("pinned", start, 4 * BLOCK)
    assert plain[70:].is_pinned()
    with debubble.record(accelerator) as timeline:
        accelerator.copy_bytes(start + 30, memory.device.data_ptr(), 2 * BLOCK)
    assert timeline.counts()["h2d_pinned"] == 1
    assert memory.device.flatten()[: 2 * BLOCK].tolist() == list(range(30, 30 + 2 * BLOCK))
    for part in range(4):
        accelerator.unregister_host_memory(start + part * BLOCK)
    assert not plain.is_pinned()


def test_unregistering_lets_the_copies_there_finish(accelerator):
    memory = pool(accelerator)
    plain = torch.zeros(BLOCK, dtype=torch.uint8)
    accelerator.register_host_memory(plain.data_ptr(), BLOCK)
    memory.device.fill_(9)
    accelerator.sleep(5)
    accelerator.copy_bytes(memory.device.data_ptr(), plain.data_ptr(), BLOCK)
    assert plain.tolist() == [255] * BLOCK
    accelerator.unregister_host_memory(plain.data_ptr())
    assert plain.tolist() == [9] * BLOCK


def test_registered_memory_overlaps_no_pinned_memory(accelerator):
    pinned = torch.zeros(4096, dtype=torch.uint8, pin_memory=True)
    plain = torch.zeros(4096, dtype=torch.uint8)
    with pytest.raises(RuntimeError, match="page-locked already"):
        accelerator.register_host_memory(pinned.data_ptr() + 100, 8)
    accelerator.register_host_memory(plain.data_ptr(), 100)
    for start, nbytes in ((0, 4096), (99, 1), (50, 10)):
        with pytest.raises(RuntimeError, match="page-locked already"):
            accelerator.register_host_memory(plain.data_ptr() + start, nbytes)
    accelerator.register_host_memory(plain.data_ptr() + 100, 100)
    for start in (0, 100):
        accelerator.unregister_host_memory(plain.data_ptr() + start)
    with pytest.raises(RuntimeError, match="no host memory is registered at"):
        accelerator.unregister_host_memory(plain.data_ptr())


def test_nothing_is_registered_where_nothing_can_be_pinned(accelerator, monkeypatch):
    plain = torch.zeros(64)
    monkeypatch.setenv("DEBUBBLE_PINNING", "off")
    with pytest.raises(RuntimeError, match="can't be pinned here"):
        accelerator.register_host_memory(plain.data_ptr(), 256)
    assert accelerator.memory_at(plain.data_ptr()) is None


def test_by_address_takes_three_int64_arrays_of_one_length():
    good = np.zeros(3, np.int64)
    ByAddress(good, good, good)
    for bad in (good.astype(np.int32), good[:2], np.zeros(6, np.int64)[::2], [0, 0, 0]):
        with pytest.raises(ValueError, match=r"sizes|one length"):
            ByAddress(good, good, bad)


def test_memory_may_be_freed_while_an_address_is_looked_up(accelerator, monkeypatch):
    """The owner of an address is looked up without an error if memory is freed meanwhile: the
    garbage collector can run while the table of memory is rebuilt."""
    plain, garbage = torch.zeros(8), [torch.zeros(8, device=accelerator.device) for _ in range(3)]
    for tensor in garbage:
        tensor.data_ptr()
    make = AddressMap._make

    def make_and_free(address_map):
        make(address_map)
        garbage[:1] = []

    address_map = AddressMap()
    torch.zeros(8, device=accelerator.device).data_ptr()  # The table is outdated now.
    monkeypatch.setattr(AddressMap, "_make", make_and_free)
    assert address_map.range_at(plain.data_ptr()) is None
    assert garbage == []


def test_pinned_memory_may_be_collected_at_any_line_that_pins_more(accelerator):
    """Pinned memory can be freed by the garbage collector at any line of the code that pins more,
    without a deadlock. The test runs in a process of its own, which would hang forever."""
    done = subprocess.run([sys.executable, "-c", COLLECTS], timeout=60, check=False)
    assert done.returncode == 0


COLLECTS = """
import bisect, gc
import debubble, torch
from debubble.sim.memory import pinning

def insort(ranges, one):
    gc.collect()
    bisect.insort(ranges, one)

debubble.accelerator("sim")
circle = [torch.empty(8, pin_memory=True)]
circle.append(circle)
del circle
pinning.insort = insort
torch.empty(8, pin_memory=True)
"""
