"""Prefixes that need not be computed: the longest whose keys, values and states are all cached."""

import pytest

from solutions.engine import SamplingParams
from solutions.engine.memory.block_manager import BlockManager
from solutions.engine.memory.prefix_cache import PrefixCache
from solutions.engine.requests.new_request import new_request

from .setting import small
from .symbolic_device import SymbolicStates

CONFIG = small("spans")
SIZE = CONFIG.limits.block_size


class HostMemory:
    """A stand-in for host memory that holds the blocks with these hashes, and these states."""

    def __init__(self, hashes, states=()):
        self.hashes, self.states = hashes, states

    def num_ready(self, hashes):
        return next((n for n, name in enumerate(hashes) if name not in self.hashes), len(hashes))

    def has_state(self, name):
        return name in self.states


def request_of(num_tokens, images=(), first_patch=0):
    tokens = [number % CONFIG.model.vocab_size for number in range(num_tokens)]
    for first, last in images:
        patches = range(first_patch, first_patch + last + 1 - first)
        tokens[first : last + 1] = [CONFIG.model.vocab_size + patch % 32 for patch in patches]
    return new_request("a", tokens, images, SamplingParams(max_tokens=2), CONFIG)


def cached(request, num_blocks):
    """Returns (block manager, blocks): the request's first `num_blocks` blocks are cached in the
    manager, but not held."""
    manager = BlockManager(8)
    blocks = manager.allocate(num_blocks)
    for block, name in zip(blocks, request.hashes, strict=False):
        manager.name(block, name)
    manager.release(blocks)
    return manager, blocks


def kept(*names):
    states = SymbolicStates(num_running=2, num_kept=4)
    for name in names:
        states.keep(0, name)
    return states


@pytest.mark.parametrize(
    ("num_tokens", "num_found"), [(1, 0), (SIZE, 0), (SIZE + 1, 1), (2 * SIZE, 1), (40, 2)]
)
def test_the_last_token_is_always_computed(num_tokens, num_found):
    manager, blocks = cached(request_of(3 * SIZE), 3)
    prefix = PrefixCache(manager, None, None).find(request_of(num_tokens))
    assert prefix.gpu_blocks == blocks[:num_found]
    assert not prefix.needs_load


def test_what_is_not_on_the_device_comes_from_host_memory():
    request = request_of(60)
    manager, blocks = cached(request, 1)
    found = PrefixCache(manager, None, HostMemory(request.hashes[:2])).find(request)
    assert (found.gpu_blocks, found.hashes_to_load) == (blocks, request.hashes[1:2])
    assert found.needs_load and found.num_blocks == 2


def test_a_request_whose_load_has_failed_looks_at_the_device_alone():
    request = request_of(60)
    manager, blocks = cached(request, 1)
    cache = PrefixCache(manager, None, HostMemory(request.hashes))
    found = cache.find(request, use_host=False)
    assert (found.gpu_blocks, found.hashes_to_load) == (blocks, [])


def test_to_look_changes_nothing():
    request = request_of(60)
    manager, _ = cached(request, 2)
    PrefixCache(manager, None, None).find(request)
    assert manager.num_free == 7


@pytest.mark.parametrize(("kept_at", "num_found"), [((), 0), ((1,), 1), ((0, 1), 1), ((2,), 2)])
def test_with_states_a_prefix_ends_where_one_was_kept(kept_at, num_found):
    request = request_of(60)
    manager, blocks = cached(request, 3)
    states = kept(*(request.hashes[number - 1] for number in kept_at if number))
    found = PrefixCache(manager, states, None).find(request)
    assert found.gpu_blocks == blocks[:num_found]
    assert found.state_hash == (request.hashes[num_found - 1] if num_found else None)
    assert not found.loads_state


def test_a_state_may_come_from_host_memory_though_the_blocks_are_on_the_device():
    request = request_of(60)
    manager, blocks = cached(request, 3)
    host = HostMemory([], request.hashes[1:2])
    found = PrefixCache(manager, kept(request.hashes[0]), host).find(request)
    assert (found.gpu_blocks, found.hashes_to_load) == (blocks[:2], [])
    assert found.needs_load and found.loads_state
    assert found.state_hash == request.hashes[1]


def test_a_prefix_that_ends_within_an_image_is_shared_by_those_with_the_whole_image():
    image = (10, 20)
    manager, blocks = cached(request_of(40, [image]), 1)
    cache = PrefixCache(manager, None, None)
    assert cache.find(request_of(30, [image])).gpu_blocks == blocks
    assert cache.find(request_of(30, [image], first_patch=1)).gpu_blocks == []
    assert cache.find(request_of(30, [(10, 19)])).gpu_blocks == []
    assert cache.find(request_of(30)).gpu_blocks == []
