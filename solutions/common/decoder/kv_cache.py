"""The keys and values of one layer, in blocks that the block tables of requests refer to."""

from __future__ import annotations

import torch

LIMIT = 2**31
"""The count that the numbers in `key`, and in `value`, must stay below: FlexAttention compiles for
32-bit indices, and fails for a larger cache."""


class KVCache:
    """A cache of `key` and `value`: [num_blocks, page, num_kv_heads, head_size], contiguous.

    It starts with zeros: a masked token counts with weight 0, and 0 times NaN would be NaN. Raises
    ValueError for a cache that FlexAttention can't read, before any memory is allocated.
    """

    def __init__(
        self,
        num_blocks: int,
        page: int,
        num_kv_heads: int,
        head_size: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        _check_size(num_blocks, page, num_kv_heads, head_size)
        shape = (num_blocks, page, num_kv_heads, head_size)
        self.key = torch.zeros(shape, dtype=dtype, device=device)
        self.value = torch.zeros(shape, dtype=dtype, device=device)
        self._heads = _by_head(self.key), _by_head(self.value)

    def empty_twin(self, num_blocks: int, page: int, device: torch.device) -> KVCache:
        """Returns an empty cache on `device`, with heads of the same number, size and dtype."""
        num_kv_heads, head_size = self.key.shape[2:]
        return KVCache(num_blocks, page, num_kv_heads, head_size, self.key.dtype, device)

    def as_heads(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns keys and values in attention's layout: two views [1, num_kv_heads, num_blocks *
        page, head_size]."""
        return self._heads


def _by_head(cache: torch.Tensor) -> torch.Tensor:
    """Returns a view [1, num_kv_heads, num_blocks * page, head_size] of `cache`, which is the keys
    or the values."""
    return cache.flatten(0, 1).transpose(0, 1)[None]


def _check_size(num_blocks: int, page: int, num_kv_heads: int, head_size: int) -> None:
    of_block = page * num_kv_heads * head_size
    if num_blocks * of_block >= LIMIT:
        raise ValueError(
            f"{num_blocks} blocks of {page} tokens with {num_kv_heads} heads of {head_size} are "
            f"{num_blocks * of_block} numbers, and FlexAttention can index fewer than {LIMIT}: use "
            f"at most {(LIMIT - 1) // of_block} blocks"
        )
