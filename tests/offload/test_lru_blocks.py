"""The blocks on the CPU are found, allocated and evicted as by a much simpler manager."""

import os
import subprocess
import sys

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from solutions.offload.memory.lru_blocks import LRUBlockManager, prefix_hashes, without_transfers

NUM_BLOCKS = 5
HASHES = st.lists(st.sampled_from("abcdefgh"), max_size=NUM_BLOCKS + 1, unique=True)


def stored(manager, *hashes):
    """Stores blocks with these hashes in the manager, completes the store at once, and returns
    their ids."""
    plan = manager.prepare_store(list(hashes))
    manager.complete_store(plan.hashes)
    return plan.block_ids


class NaiveManager:
    """A simple manager with one row for each block: its hash, id, state, and when it was last
    used."""

    def __init__(self, num_blocks):
        self.num_blocks, self.rows, self.clock = num_blocks, [], 0

    def row(self, block_hash):
        return next((row for row in self.rows if row["hash"] == block_hash), None)

    def use(self, rows):
        """Marks the rows as used, from the last to the first, so that the first is the most
        recent."""
        for row in reversed(rows):
            self.clock += 1
            row["used"] = self.clock

    def idle(self):
        rows = [row for row in self.rows if row["ready"] and not row["loads"]]
        return sorted(rows, key=lambda row: row["used"])

    def lookup(self, hashes):
        ready = [bool(self.row(h) and self.row(h)["ready"]) for h in hashes]
        return [*ready, False].index(False)

    def may_load(self, hashes):
        return self.lookup(hashes) == len(hashes)

    def load(self, hashes, change):
        rows = [self.row(h) for h in hashes]
        for row in rows:
            row["loads"] += change
        if change < 0:
            self.use([row for row in rows if not row["loads"]])
        return [row["id"] for row in rows]

    def store(self, hashes):
        missing = [h for h in hashes if not self.row(h)]
        lacking = len(self.rows) + len(missing) - self.num_blocks
        idle = [row for row in self.idle() if row["hash"] not in hashes]
        if lacking > len(idle):
            return None
        evicted = idle[: max(0, lacking)]
        self.rows = [row for row in self.rows if row not in evicted]
        free = sorted(set(range(self.num_blocks)) - {row["id"] for row in self.rows})
        for block_hash, block_id in zip(missing, free, strict=False):
            self.rows.append(
                {"hash": block_hash, "id": block_id, "ready": False, "loads": 0, "used": 0}
            )
        return free[: len(missing)], missing, [row["hash"] for row in evicted]

    def complete_store(self, hashes, success):
        rows = [self.row(h) for h in hashes]
        if not success:
            self.rows = [row for row in self.rows if row not in rows]
            return
        for row in rows:
            row["ready"] = True
        self.use(rows)


class BothManagers(RuleBasedStateMachine):
    """A state machine that calls our manager and the naive one alike, and compares their
    answers."""

    def __init__(self):
        super().__init__()
        self.ours, self.naive = LRUBlockManager(NUM_BLOCKS), NaiveManager(NUM_BLOCKS)
        self.loads, self.stores = [], []

    @rule(hashes=HASHES)
    def look_up(self, hashes):
        assert self.ours.lookup(hashes) == self.naive.lookup(hashes)

    @rule(hashes=HASHES)
    def touch(self, hashes):
        self.ours.touch(hashes)
        self.naive.use([row for row in map(self.naive.row, hashes) if row in self.naive.idle()])

    @rule(hashes=HASHES)
    def prepare_load(self, hashes):
        if not self.naive.may_load(hashes):
            with pytest.raises(ValueError, match=r"block '[a-h]' is"):
                self.ours.prepare_load(hashes)
            return
        assert self.ours.prepare_load(hashes) == self.naive.load(hashes, +1)
        self.loads.append(hashes)

    @rule(which=st.integers(0, 9))
    def complete_load(self, which):
        if self.loads:
            hashes = self.loads.pop(which % len(self.loads))
            self.ours.complete_load(hashes)
            self.naive.load(hashes, -1)

    @rule(hashes=HASHES)
    def prepare_store(self, hashes):
        plan, expected = self.ours.prepare_store(hashes), self.naive.store(hashes)
        assert plan == expected
        if plan:
            self.stores.append(plan.hashes)

    @rule(which=st.integers(0, 9), success=st.booleans())
    def complete_store(self, which, success):
        if self.stores:
            hashes = self.stores.pop(which % len(self.stores))
            self.ours.complete_store(hashes, success)
            self.naive.complete_store(hashes, success)

    @invariant()
    def what_is_under_way_has_blocks_of_its_own(self):
        ids = [row["id"] for row in self.naive.rows]
        assert len(set(ids)) == len(ids) <= NUM_BLOCKS
        under_way = {h for hashes in self.loads + self.stores for h in hashes}
        assert under_way <= {row["hash"] for row in self.naive.rows}


TestBothManagers = BothManagers.TestCase
TestBothManagers.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


def test_a_block_is_found_once_its_store_is_complete():
    manager = LRUBlockManager(4)
    plan = manager.prepare_store(["a"])
    assert manager.lookup(["a"]) == 0
    with pytest.raises(ValueError, match="block 'a' is still being stored: look it up first"):
        manager.prepare_load(["a"])
    manager.complete_store(plan.hashes)
    assert manager.lookup(["a"]) == 1


def test_a_block_that_is_being_loaded_is_not_evicted():
    manager = LRUBlockManager(2)
    stored(manager, "a")
    manager.prepare_load(["a"])
    assert manager.prepare_store(["b", "c"]) is None
    manager.complete_load(["a"])
    assert manager.prepare_store(["b", "c"]).evicted == ["a"]


def test_what_is_there_or_on_its_way_is_not_stored_again():
    manager = LRUBlockManager(4)
    stored(manager, "a")
    assert manager.prepare_store(["a", "b"]).hashes == ["b"]
    assert manager.prepare_store(["a", "b", "c", "c"]).hashes == ["c"]
    assert manager.prepare_store(["a", "b", "c"]) == ([], [], [])


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda manager: manager.prepare_load(["a", "z"]), "'z' is not on the CPU"),
        (lambda manager: manager.complete_load(["a"]), "'a' is not being loaded"),
        (lambda manager: manager.complete_load(["z"]), "'z' is not being loaded"),
        (lambda manager: manager.complete_store(["a"]), "'a' is not being stored"),
        (lambda manager: manager.complete_store(["z"], False), "'z' is not being stored"),
    ],
)
def test_an_error_names_the_hash_and_changes_nothing(ask, message):
    manager = LRUBlockManager(2)
    stored(manager, "a", "b")
    with pytest.raises(ValueError, match=message):
        ask(manager)
    # Nothing is pinned: both can go, in their order.
    assert manager.prepare_store(["x", "y"]).evicted == ["b", "a"]


def test_a_load_is_completed_as_often_as_it_was_prepared():
    manager = LRUBlockManager(2)
    stored(manager, "a")
    manager.prepare_load(["a"])
    with pytest.raises(ValueError, match="'a' is not being loaded"):
        manager.complete_load(["a", "a"])
    manager.complete_load(["a"])
    with pytest.raises(ValueError, match="'a' is not being loaded"):
        manager.complete_load(["a"])


def test_what_was_under_way_is_let_go_of():
    manager = LRUBlockManager(4)
    first, second = stored(manager, "b", "a")
    manager.prepare_load(["b"])
    manager.prepare_store(["c"])
    settled = without_transfers(manager)
    assert settled.prepare_load(["b", "a"]) == [first, second]
    assert settled.lookup(["c"]) == 0
    settled.complete_load(["b", "a"])
    assert settled.prepare_store(["d", "e", "f"]).evicted == ["a"]


def test_bytes_are_shown_as_a_digest_is():
    with pytest.raises(ValueError, match="block 00ff is not on the CPU"):
        LRUBlockManager(1).prepare_load([b"\x00\xff"])


def test_a_manager_without_blocks_is_refused():
    with pytest.raises(ValueError, match="0 CPU blocks: give at least 1"):
        LRUBlockManager(0)


def test_a_hash_stands_for_all_tokens_up_to_it():
    tokens = list(range(12))
    hashes = prefix_hashes(tokens, 4)
    assert len(set(hashes)) == 3
    assert prefix_hashes(tokens[:11], 4) == hashes[:2], "only full blocks have one"
    assert prefix_hashes(tokens[:8] + [99] * 4, 4)[:2] == hashes[:2]
    changed = prefix_hashes([99, *tokens[1:]], 4)
    assert not set(changed) & set(hashes), "the second block's tokens are the same"


def test_blocks_of_another_size_have_other_hashes():
    assert not set(prefix_hashes(range(8), 4)) & set(prefix_hashes(range(8), 2))


def test_hashes_are_the_same_in_every_process():
    script = (
        "from solutions.offload.memory.lru_blocks import prefix_hashes;"
        "print([h.hex() for h in prefix_hashes([5, 1 << 40, 7, 8], 2)])"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    here = [block_hash.hex() for block_hash in prefix_hashes([5, 1 << 40, 7, 8], 2)]
    assert run.stdout.strip() == str(here)


def test_no_tokens_have_no_hashes():
    assert prefix_hashes([], 16) == prefix_hashes([1, 2, 3], 16) == []


def test_a_block_without_tokens_is_refused():
    with pytest.raises(ValueError, match="blocks of 0 tokens: they need at least 1"):
        prefix_hashes([1, 2], 0)
