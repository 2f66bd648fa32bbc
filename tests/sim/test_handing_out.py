"""Freed blocks that a new one may reuse, while the garbage collector frees others."""

import gc
from types import SimpleNamespace

import pytest

from debubble.sim.clock import handing_out

pytestmark = pytest.mark.sim


@pytest.mark.parametrize("does_fit", [False, True])
def test_a_block_that_is_freed_during_the_search_is_no_error(monkeypatch, does_fit):
    use = SimpleNamespace(stream=None, order=1)
    freed = SimpleNamespace(owner=1, nbytes=8, uses=[use])
    blocks = handing_out.HandingOut(None)
    blocks.left.extend([freed] * handing_out.MOST_LEFT)

    def fits(block, nbytes):
        blocks.left.append(SimpleNamespace(owner=2))  # As a finalizer does.
        return does_fit

    monkeypatch.setattr(handing_out, "_fits", fits)
    found = blocks._left_for(SimpleNamespace(owner=1), lambda stream: 0)
    assert found is (use if does_fit else None)


class FreedWhenCollected:
    """An object in a reference cycle whose finalizer adds a freed block to `left`."""

    def __init__(self, left):
        self.left, self.itself = left, self

    def __del__(self):
        self.left.append(SimpleNamespace(owner=2))


def test_the_garbage_collector_may_run_at_any_object_of_the_search():
    blocks = handing_out.HandingOut(None)
    blocks.left.extend([SimpleNamespace(owner=2)] * handing_out.MOST_LEFT)
    thresholds = gc.get_threshold()
    try:
        for made_before_a_collection in range(1, 200):
            gc.disable()
            FreedWhenCollected(blocks.left)
            gc.set_threshold(made_before_a_collection % 12 + 1)
            gc.enable()
            assert blocks._left_for(SimpleNamespace(owner=1), lambda stream: 0) is None
    finally:
        gc.set_threshold(*thresholds)
        gc.enable()
