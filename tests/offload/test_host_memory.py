"""Page-locked memory: new, or locked in parts that the driver accepts, and unlocked again."""

import pytest
import torch

from solutions.offload.memory.host_memory import RegisteredMemory, pinned_blocks, registered

GIB = 1 << 30


class Memory:
    """A stand-in for a tensor of any size at any address."""

    def __init__(self, address, nbytes):
        self.address, self.nbytes = address, nbytes

    def data_ptr(self):
        return self.address


class Driver:
    """A fake driver that refuses what a real one refuses, and notes which memory is locked."""

    def __init__(self, fails_at=None):
        self.locked, self.unlocked, self.fails_at = {}, [], fails_at

    def register_host_memory(self, address, nbytes):
        if nbytes >= 512 * GIB:
            raise RuntimeError("512 GiB or more in one call")
        if len(self.locked) == self.fails_at:
            raise RuntimeError("out of memory")
        self.locked[address] = nbytes

    def unregister_host_memory(self, address):
        del self.locked[address]
        self.unlocked.append(address)


def place_of(accelerator, tensor):
    found = accelerator.memory_at(tensor.data_ptr())
    return found and found.place


def test_pinned_blocks_are_rows_of_zeros(accelerator):
    blocks = pinned_blocks(6, 48)
    assert (blocks.dtype, blocks.shape) == (torch.int8, (6, 48))
    assert blocks.is_pinned()
    assert not blocks.any()
    assert place_of(accelerator, blocks) == "pinned"


def test_without_pinning_there_are_no_blocks(accelerator, monkeypatch):
    monkeypatch.setattr(accelerator, "pin_memory", False, raising=False)
    with pytest.raises(RuntimeError, match="host memory can't be pinned here"):
        pinned_blocks(6, 48)


def test_memory_is_page_locked_while_it_is_registered(accelerator):
    blocks = torch.zeros((6, 4096), dtype=torch.int8)
    assert place_of(accelerator, blocks) is None
    with registered(blocks) as locked:
        assert locked is blocks
        assert place_of(accelerator, blocks[5, 4095:]) == "pinned"
    assert place_of(accelerator, blocks) is None


def test_it_may_be_released_by_hand_and_twice(accelerator):
    blocks = torch.zeros((6, 4096), dtype=torch.int8)
    memory = registered(blocks)
    assert memory.tensor is blocks
    assert place_of(accelerator, blocks) == "pinned"
    memory.release()
    memory.release()
    assert place_of(accelerator, blocks) is None


def test_an_error_in_the_block_unlocks_too(accelerator):
    blocks = torch.zeros((6, 4096), dtype=torch.int8)
    with pytest.raises(KeyError), registered(blocks):
        raise KeyError
    assert place_of(accelerator, blocks) is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda device: torch.zeros((4, 64), dtype=torch.int8, device=device), "the tensor is on"),
        (lambda device: torch.zeros((4, 64), dtype=torch.int8)[:, :32], "must be contiguous"),
        (lambda device: torch.zeros((0, 64), dtype=torch.int8), "and not empty"),
    ],
)
def test_other_tensors_are_refused(accelerator, make, message):
    with pytest.raises(ValueError, match=message):
        registered(make(accelerator.device))


@pytest.mark.parametrize("gib", [0.001, 1, 256, 511, 512, 513, 1024, 2000])
@pytest.mark.parametrize("address", [1 << 44, (1 << 44) + 4096, (1 << 44) + 64])
def test_trap_11_no_call_locks_512_gib(gib, address):
    nbytes = int(gib * GIB)
    naive = Driver()
    if gib >= 512:
        with pytest.raises(RuntimeError, match="512 GiB or more in one call"):
            naive.register_host_memory(address, nbytes)
    driver = Driver()
    memory = RegisteredMemory(Memory(address, nbytes), driver)
    expect_all_of_it(driver.locked, address, nbytes)
    memory.release()
    assert driver.locked == {}


def expect_all_of_it(locked, address, nbytes):
    """Checks that the ranges `locked` cover the memory without gaps, in at most one call more than
    its size needs, and that each call but the first begins at a page of 2 MiB."""
    assert len(locked) <= -(-nbytes // (256 * GIB)) + 1
    for start, size in sorted(locked.items()):
        assert start == address
        assert start % (2 << 20) == 0 or len(locked) == 1 or start == min(locked)
        address, nbytes = start + size, nbytes - size
    assert nbytes == 0


def test_trap_11_a_part_that_fails_unlocks_the_others():
    driver = Driver(fails_at=2)
    with pytest.raises(RuntimeError, match="out of memory"):
        RegisteredMemory(Memory(1 << 44, 1000 * GIB), driver)
    assert driver.locked == {}
    assert len(driver.unlocked) == 2


def test_trap_11_the_accelerator_refuses_the_same(accelerator):
    with pytest.raises(RuntimeError, match="512 GiB"):
        accelerator.register_host_memory(1 << 44, 512 * GIB)


@pytest.mark.sim
def test_trap_11_on_sim_no_memory_has_to_be_there(accelerator):
    address = 1 << 45
    memory = RegisteredMemory(Memory(address, 1100 * GIB), accelerator)
    for offset in (0, 256 * GIB, 1100 * GIB - 1):
        assert accelerator.memory_at(address + offset).place == "pinned"
    assert accelerator.memory_at(address + 1100 * GIB) is None
    memory.release()
    assert accelerator.memory_at(address) is None
