"""Manages the blocks on the CPU: found by the hash of all tokens up to them, evicted when
unused."""

from __future__ import annotations

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from solutions.common.shown import shown


def prefix_hashes(tokens: Sequence[int], block_size: int) -> list[bytes]:
    """Returns a hash for each full block of `block_size` tokens: of its tokens and of all tokens
    before them.

    So equal hashes mean equal prefixes, in every process and on every machine. Raises ValueError
    for blocks of fewer than 1 token.
    """
    if block_size < 1:
        raise ValueError(f"blocks of {block_size} tokens: they need at least 1")
    ids = _whole_numbers(tokens)
    hashes, previous = [], b""
    for end in range(block_size, len(ids) + 1, block_size):
        previous = hashlib.sha256(previous + ids[end - block_size : end].tobytes()).digest()
        hashes.append(previous)
    return hashes


def _whole_numbers(tokens: Sequence[int]) -> np.ndarray:
    """Returns the tokens as int64 [n]. Raises ValueError for fractions, which would be truncated,
    and for anything else that isn't a list of integers."""
    try:
        ids = np.asarray(tokens)
    except ValueError:  # of lists of different lengths
        ids = np.array(None)
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise ValueError(f"tokens is {shown(tokens)} of {ids.dtype}: give a list of whole numbers")
    return ids.astype("<i8")


class StorePlan(NamedTuple):
    """The result of `prepare_store`: which of the given hashes to store, and in which CPU
    blocks."""

    block_ids: list[int]
    """The CPU block to store each of `hashes` in."""
    hashes: list[Hashable]
    """The given hashes that had no CPU block, and so have to be stored."""
    evicted: list[Hashable]
    """Hashes that lost their CPU blocks to `hashes`, in the order of eviction."""


@dataclass(slots=True)
class _Block:
    block_id: int
    is_ready: bool = False
    num_loads: int = 0


class LRUBlockManager:
    """Allocates `num_blocks` block ids, 0 and up, and never one that a transfer still uses.

    A block is *stored* between `prepare_store` and `complete_store`, then it is *ready*. It is
    *loaded* between `prepare_load` and `complete_load`, by one or several loads. Ready blocks that
    are not being loaded can be evicted, the least recently used one first. A block is used when its
    store or the last of its loads is completed, and when it is touched. If hashes are completed or
    touched together, the first counts as the most recent, since the end of a prefix is useless
    without its start.

    All methods take the hashes of one prefix in their order. They raise ValueError, naming the
    hash, before anything is changed.
    """

    def __init__(self, num_blocks: int) -> None:
        if num_blocks < 1:
            raise ValueError(f"{num_blocks} CPU blocks: give at least 1")
        self.num_blocks = num_blocks
        self._blocks: dict[Hashable, _Block] = {}
        self._evictable: OrderedDict[Hashable, None] = OrderedDict()
        """Hashes that are ready and not being loaded, the least recently used first."""
        self._free_ids = list(range(num_blocks))
        """Block ids that no hash has, as a heap: the lowest is allocated first."""

    def lookup(self, hashes: Iterable[Hashable]) -> int:
        """Returns how many of the hashes, from the first on and without a gap, are ready. This
        doesn't count as use."""
        found = 0
        for block_hash in hashes:
            block = self._blocks.get(block_hash)
            if block is None or not block.is_ready:
                break
            found += 1
        return found

    def touch(self, hashes: Sequence[Hashable]) -> None:
        """Makes these hashes the most recently used, with the first as the most recent. Skips
        hashes without a block, and those whose block is being stored or loaded."""
        for block_hash in reversed(hashes):
            if block_hash in self._evictable:
                self._evictable.move_to_end(block_hash)

    def prepare_load(self, hashes: Sequence[Hashable]) -> list[int]:
        """Returns the block ids of these hashes, which stay valid until `complete_load`.

        Raises ValueError for a hash that is not ready.
        """
        blocks = [self._ready_block(block_hash) for block_hash in hashes]
        for block_hash, block in zip(hashes, blocks, strict=True):
            block.num_loads += 1
            self._evictable.pop(block_hash, None)
        return [block.block_id for block in blocks]

    def complete_load(self, hashes: Sequence[Hashable]) -> None:
        """Ends a load, so that its blocks may be evicted. Call it once for each `prepare_load`,
        whether or not the transfer succeeded.

        Raises ValueError for a hash that is not being loaded, or that occurs more often than it is
        being loaded.
        """
        for block_hash, times in Counter(hashes).items():
            block = self._blocks.get(block_hash)
            if block is None or block.num_loads < times:
                raise ValueError(f"block {_shown(block_hash)} is not being loaded")
        for block_hash in reversed(hashes):
            block = self._blocks[block_hash]
            block.num_loads -= 1
            if block.num_loads == 0:
                self._evictable[block_hash] = None

    def prepare_store(self, hashes: Sequence[Hashable]) -> StorePlan | None:
        """Allocates a block id for each of the hashes that has none, and evicts other hashes if
        there is no room.

        Returns None, with nothing changed, if too few blocks can be evicted: blocks that are being
        stored or loaded stay, and so do those of `hashes`. Ids are allocated in ascending order,
        since consecutive blocks are copied as one.
        """
        wanted = dict.fromkeys(hashes)
        missing = [block_hash for block_hash in wanted if block_hash not in self._blocks]
        evicted = self._to_evict(len(missing) - len(self._free_ids), keep=wanted)
        if evicted is None:
            return None
        for block_hash in evicted:
            del self._evictable[block_hash]
            heappush(self._free_ids, self._blocks.pop(block_hash).block_id)
        block_ids = [heappop(self._free_ids) for _ in missing]
        for block_hash, block_id in zip(missing, block_ids, strict=True):
            self._blocks[block_hash] = _Block(block_id)
        return StorePlan(block_ids, missing, evicted)

    def complete_store(self, hashes: Sequence[Hashable], success: bool = True) -> None:
        """Makes the hashes of a plan ready, or frees their blocks if the transfer failed.

        Raises ValueError for a hash that is not being stored.
        """
        for block_hash in hashes:
            block = self._blocks.get(block_hash)
            if block is None or block.is_ready:
                raise ValueError(f"block {_shown(block_hash)} is not being stored")
        for block_hash in reversed(dict.fromkeys(hashes)):
            if success:
                self._blocks[block_hash].is_ready = True
                self._evictable[block_hash] = None
            else:
                heappush(self._free_ids, self._blocks.pop(block_hash).block_id)

    def _ready_block(self, block_hash: Hashable) -> _Block:
        block = self._blocks.get(block_hash)
        if block is None:
            raise ValueError(f"block {_shown(block_hash)} is not on the CPU: look it up first")
        if not block.is_ready:
            raise ValueError(f"block {_shown(block_hash)} is still being stored: look it up first")
        return block

    def _to_evict(self, count: int, keep: dict[Hashable, None]) -> list[Hashable] | None:
        """Returns the `count` hashes to evict, the least recently used first, without those in
        `keep`; None if there are fewer."""
        evicted: list[Hashable] = []
        for block_hash in self._evictable:
            if len(evicted) >= count:
                break
            if block_hash not in keep:
                evicted.append(block_hash)
        return evicted if len(evicted) >= count else None


def without_transfers(manager: LRUBlockManager) -> LRUBlockManager:
    """Returns a copy of `manager` with the same ready hashes in the same order of use, in which
    nothing is being stored or loaded. `manager` may have been interrupted anywhere: a block is
    ready from the moment when all of its bytes are there, until another block is to be written
    there."""
    settled = LRUBlockManager(manager.num_blocks)
    ready = [block_hash for block_hash, block in manager._blocks.items() if block.is_ready]
    for block_hash in dict.fromkeys([*manager._evictable, *ready]):
        block = manager._blocks.get(block_hash)
        if block is not None and block.is_ready:
            settled._blocks[block_hash] = _Block(block.block_id, is_ready=True)
            settled._evictable[block_hash] = None
    used = {block.block_id for block in settled._blocks.values()}
    settled._free_ids = [number for number in range(manager.num_blocks) if number not in used]
    return settled


def _shown(block_hash: Hashable) -> str:
    return block_hash.hex() if isinstance(block_hash, bytes) else repr(block_hash)
