"""A held block is never reused, and a free block stays findable as long as possible."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from solutions.engine.memory.block_manager import NULL_BLOCK, BlockManager


def named(manager, count):
    """Allocates `count` blocks, registers them with the hashes 0, 1, … as single bytes, and returns
    them."""
    blocks = manager.allocate(count)
    for number, block in enumerate(blocks):
        manager.name(block, bytes([number]))
    return blocks


def names(count):
    return [bytes([number]) for number in range(count)]


def test_the_null_block_belongs_to_nobody():
    manager = BlockManager(5)
    assert manager.num_free == 4
    assert NULL_BLOCK not in manager.allocate(4)


def test_a_block_with_two_holders_is_free_when_both_have_gone():
    manager = BlockManager(3)
    (block,) = manager.allocate(1)
    manager.hold([block])
    manager.release([block])
    assert manager.num_free == 1
    manager.release([block])
    assert manager.num_free == 2


def test_what_was_in_a_free_block_is_found_until_it_is_given_away():
    manager = BlockManager(4)
    blocks = named(manager, 2)
    manager.release(blocks)
    assert manager.lookup(names(2)) == blocks
    manager.allocate(3)
    assert manager.lookup(names(2)) == []


def test_the_end_of_a_prefix_is_given_away_before_its_beginning():
    manager = BlockManager(4)
    blocks = named(manager, 3)
    manager.release(blocks)
    assert manager.allocate(1) == blocks[2:]
    assert manager.lookup(names(3)) == blocks[:2]


def test_the_block_that_has_been_free_for_longest_goes_first():
    manager = BlockManager(4)
    first, second, third = manager.allocate(3)
    for block in (second, third, first):
        manager.release([block])
    assert manager.allocate(3) == [second, third, first]


def test_a_found_block_that_is_held_again_is_not_given_away():
    manager = BlockManager(3)
    blocks = named(manager, 2)
    manager.release(blocks)
    assert manager.num_to_take(blocks[:1]) == 1
    manager.hold(blocks[:1])
    assert manager.num_to_take(blocks[:1]) == 0
    assert manager.allocate(1) == blocks[1:]
    assert manager.lookup(names(2)) == blocks[:1]


def test_a_search_ends_at_the_first_block_that_is_missing():
    manager = BlockManager(4)
    blocks = named(manager, 2)
    assert manager.lookup([b"\0", b"\7", b"\1"]) == blocks[:1]


def test_the_second_block_with_the_same_contents_has_no_name():
    manager = BlockManager(4)
    first, second = manager.allocate(2)
    for block in (first, second, first):
        manager.name(block, b"a")
    assert manager.lookup([b"a"]) == [first]


@pytest.mark.parametrize("count", [0, 2])
def test_none_may_be_allocated_and_all(count):
    manager = BlockManager(3)
    assert len(manager.allocate(count)) == count
    assert manager.num_free == 2 - count


@pytest.mark.parametrize("count", [3, -1])
def test_blocks_that_are_not_there_can_t_be_allocated(count):
    manager = BlockManager(3)
    with pytest.raises(ValueError, match=f"{count} blocks to allocate, and 2 are free"):
        manager.allocate(count)
    assert manager.num_free == 2


def test_a_block_that_nobody_holds_can_t_be_released():
    manager = BlockManager(4)
    first, second = manager.allocate(2)
    with pytest.raises(ValueError, match=f"block {second} is released, and no request holds it"):
        manager.release([first, second, second])
    assert manager.num_free == 1
    manager.release([first, second])
    assert manager.num_free == 3


class Holding(RuleBasedStateMachine):
    """A state machine that allocates, registers, finds and releases blocks at random, and compares
    the manager with a plain list of holders."""

    holders = Bundle("holders")

    def __init__(self):
        super().__init__()
        self.manager = BlockManager(8)
        self.held, self.found = [], {}

    @rule(target=holders, count=st.integers(0, 4))
    def allocate(self, count):
        if count > self.manager.num_free:
            with pytest.raises(ValueError, match="are free"):
                self.manager.allocate(count)
            return multiple()
        blocks = self.manager.allocate(count)
        assert not {*blocks} & {block for held in self.held for block in held}
        self.found = {name: block for name, block in self.found.items() if block not in blocks}
        self.held.append(blocks)
        return blocks

    @rule(blocks=holders, name=st.integers(0, 5))
    def name(self, blocks, name):
        if not blocks:
            return
        self.manager.name(blocks[0], bytes([name]))
        if self.found.get(name, blocks[0]) == blocks[0]:
            kept = {n: block for n, block in self.found.items() if block != blocks[0]}
            self.found = {**kept, name: blocks[0]}

    @rule(target=holders, name=st.integers(0, 5))
    def hold_what_is_found(self, name):
        blocks = self.manager.lookup([bytes([name])])
        assert blocks == ([self.found[name]] if name in self.found else [])
        self.manager.hold(blocks)
        self.held.append(blocks)
        return blocks

    @rule(blocks=consumes(holders))
    def release(self, blocks):
        self.manager.release(blocks)
        self.held.remove(blocks)

    @invariant()
    def all_blocks_are_held_or_free(self):
        held = {block for blocks in self.held for block in blocks}
        assert self.manager.num_free + len(held) == 7


def test_blocks_held_and_free_are_all_blocks_whatever_happens():
    run_state_machine_as_test(Holding, settings=settings(max_examples=50, deadline=None))
