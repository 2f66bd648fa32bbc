"""Manages the device's KV blocks: which are held, what they contain, and which is allocated
next."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence

NULL_BLOCK = 0
"""A block that is never allocated. Unused entries of a block table have it."""


class BlockManager:
    """A manager of blocks 1 to num_blocks - 1. A block may have several holders: requests with the
    same prefix, and transfers. A block without a holder is free, and keeps its contents until it is
    allocated again. The block that has been free for the longest time is allocated first."""

    def __init__(self, num_blocks: int) -> None:
        self._all = range(NULL_BLOCK + 1, num_blocks)
        self._free = OrderedDict.fromkeys(self._all)
        self._holders: Counter[int] = Counter()
        self._block_of: dict[bytes, int] = {}
        self._hash_of: dict[int, bytes] = {}

    @property
    def num_free(self) -> int:
        """The number of blocks without a holder."""
        return len(self._free)

    def lookup(self, hashes: Iterable[bytes]) -> list[int]:
        """Returns the blocks whose contents have these hashes, up to the first hash that is not
        found. Doesn't add a holder."""
        blocks = []
        for block_hash in hashes:
            block = self._block_of.get(block_hash)
            if block is None:
                break
            blocks.append(block)
        return blocks

    def num_to_take(self, blocks: Iterable[int]) -> int:
        """Returns how many of these blocks are free now, and would no longer be if they were
        held."""
        return sum(block in self._free for block in blocks)

    def hold(self, blocks: Iterable[int]) -> None:
        """Adds a holder to each block."""
        for block in blocks:
            self._free.pop(block, None)
            self._holders[block] += 1

    def allocate(self, count: int) -> list[int]:
        """Returns free blocks for a new holder, and forgets their contents. Raises ValueError, with
        nothing changed, if fewer than `count` are free."""
        if not 0 <= count <= self.num_free:
            raise ValueError(f"{count} blocks to allocate, and {self.num_free} are free")
        blocks = [self._free.popitem(last=False)[0] for _ in range(count)]
        for block in blocks:
            self._holders[block] = 1
            self._forget(block)
        return blocks

    def release(self, blocks: Sequence[int]) -> None:
        """Removes a holder from each block. Give the blocks in a request's order: of those that
        become free the last is allocated first, since a prefix is of no use without its beginning.
        Raises ValueError, with nothing changed, for a block without a holder."""
        for block, times in Counter(blocks).items():
            if self._holders[block] < times:
                raise ValueError(f"block {block} is released, and no request holds it")
        for block in reversed(blocks):
            self._holders[block] -= 1
            if not self._holders[block]:
                del self._holders[block]
                self._free[block] = None

    def release_all(self) -> None:
        """Frees all blocks. Their contents can still be found where block and hash map to each
        other: an entry that an interrupted change left half written is dropped."""
        self._holders.clear()
        self._free = OrderedDict.fromkeys([*self._free, *self._all])
        hash_of = self._hash_of.items()
        self._hash_of = {
            block: name for block, name in hash_of if self._block_of.get(name) == block
        }
        self._block_of = {name: block for block, name in self._hash_of.items()}

    def name(self, block: int, block_hash: bytes) -> None:
        """Registers a held block by the hash of its contents, unless another block has the same."""
        if block_hash in self._block_of:
            return
        self._forget(block)
        self._block_of[block_hash] = block
        self._hash_of[block] = block_hash

    def forget_free(self) -> None:
        """Forgets the contents of all free blocks."""
        for block in self._free:
            self._forget(block)

    def _forget(self, block: int) -> None:
        block_hash = self._hash_of.pop(block, None)
        if block_hash is not None:
            del self._block_of[block_hash]
