"""The device's KV blocks: who holds them, what is in them, and which one is given away next."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence

NULL_BLOCK = 0
"""Belongs to nobody: where a block table has nothing to say."""


class BlockManager:
    """Blocks 1 to num_blocks - 1. A block may have several holders: requests with the same prefix,
    and transfers. What nobody holds is free, and keeps its contents until it is given away: the one
    that has been free for the longest time goes first.
    """

    def __init__(self, num_blocks: int) -> None:
        self._all = range(NULL_BLOCK + 1, num_blocks)
        self._free = OrderedDict.fromkeys(self._all)
        self._holders: Counter[int] = Counter()
        self._block_of: dict[bytes, int] = {}
        self._hash_of: dict[int, bytes] = {}

    @property
    def num_free(self) -> int:
        """Blocks that nobody holds."""
        return len(self._free)

    def lookup(self, hashes: Iterable[bytes]) -> list[int]:
        """The blocks with these contents, up to the first that is not there. They get no holder by
        that."""
        blocks = []
        for block_hash in hashes:
            block = self._block_of.get(block_hash)
            if block is None:
                break
            blocks.append(block)
        return blocks

    def num_to_take(self, blocks: Iterable[int]) -> int:
        """How many of these would no longer be free."""
        return sum(block in self._free for block in blocks)

    def hold(self, blocks: Iterable[int]) -> None:
        """One holder more for each."""
        for block in blocks:
            self._free.pop(block, None)
            self._holders[block] += 1

    def allocate(self, count: int) -> list[int]:
        """Free blocks for a new holder; what was in them is forgotten. ValueError, with nothing
        changed, if there are not so many."""
        if not 0 <= count <= self.num_free:
            raise ValueError(f"{count} blocks to allocate, and {self.num_free} are free")
        blocks = [self._free.popitem(last=False)[0] for _ in range(count)]
        for block in blocks:
            self._holders[block] = 1
            self._forget(block)
        return blocks

    def release(self, blocks: Sequence[int]) -> None:
        """One holder less for each. Given in a request's order: of what gets free, the end is given
        away first, since without its beginning a prefix is of no use. ValueError, with nothing
        changed, for a block that nobody holds."""
        for block, times in Counter(blocks).items():
            if self._holders[block] < times:
                raise ValueError(f"block {block} is released, and nobody holds it")
        for block in reversed(blocks):
            self._holders[block] -= 1
            if not self._holders[block]:
                del self._holders[block]
                self._free[block] = None

    def release_all(self) -> None:
        """Nobody holds any block. Their contents are still found, as far as block and hash know one
        another: a change to them that has stopped halfway is forgotten."""
        self._holders.clear()
        self._free = OrderedDict.fromkeys([*self._free, *self._all])
        hash_of = self._hash_of.items()
        self._hash_of = {
            block: name for block, name in hash_of if self._block_of.get(name) == block
        }
        self._block_of = {name: block for block, name in self._hash_of.items()}

    def name(self, block: int, block_hash: bytes) -> None:
        """Lets others find a held block by its contents, unless another block has the same."""
        if block_hash in self._block_of:
            return
        self._forget(block)
        self._block_of[block_hash] = block
        self._hash_of[block] = block_hash

    def forget_free(self) -> None:
        """Nothing that is in a free block is found from now on."""
        for block in self._free:
            self._forget(block)

    def _forget(self, block: int) -> None:
        block_hash = self._hash_of.pop(block, None)
        if block_hash is not None:
            del self._block_of[block_hash]
