"""One call of FlexAttention: its checked arguments, and the properties that its compilation depends
on."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .mask_kind import kind_of

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

SHORT = 128
"""The number of query tokens from which on a query is long: shorter ones may run in kernels that
split the keys."""
SMALLEST_TILE, LARGEST_TILE = 16, 64
"""The smallest and the largest tile, in rows or columns of one product on the tensor cores."""


@dataclass(frozen=True, slots=True)
class FlexCall:
    """The checked arguments of one call of FlexAttention.

    `query` [batch, heads, tokens, head_size], `key` and `value` [1, kv_heads, blocks * page,
    head_size], which the whole batch shares. Row g of `kv_num_blocks` [batch, 1, groups] and
    `kv_indices` [batch, 1, groups, columns], both int32, names the blocks of the cache that the
    `q_block` query tokens from g * q_block on attend to.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    kv_num_blocks: Tensor
    kv_indices: Tensor
    q_block: int
    page: int
    mask_mod: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
    scale: float

    @classmethod
    def of(
        cls,
        device: str,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        block_mask: BlockMask,
        scale: float | None,
    ) -> FlexCall:
        """Checks the arguments and returns the call. Raises ValueError with a sentence for
        arguments that don't fit together, or lie on another device."""
        if query.device.type != device:
            raise ValueError(f"flex_attention takes tensors on {device}, not on {query.device}")
        _check_heads(query, key, value)
        _check_blocks(query, key, block_mask)
        q_block, page = block_mask.BLOCK_SIZE
        return cls(
            query,
            key,
            value,
            block_mask.kv_num_blocks,
            block_mask.kv_indices,
            q_block,
            page,
            block_mask.mask_mod,
            1 / sqrt(query.shape[-1]) if scale is None else scale,
        )

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        return self.query, self.key, self.value, self.kv_num_blocks, self.kv_indices

    @property
    def num_tokens(self) -> int:
        return self.query.shape[2]

    @property
    def is_batch(self) -> bool:
        """True if several queries share the cache, each with rows of its own in the block mask."""
        return self.query.shape[0] > 1

    @property
    def num_groups(self) -> int:
        """The number of rows of the block mask, for each query of the batch, that have query
        tokens; the mask may have more rows."""
        return -(-self.num_tokens // self.q_block)

    @property
    def tile(self) -> tuple[int, int]:
        """The number of query rows and of key columns that a kernel takes at once: they divide
        `q_block` and `page`."""
        return _tile(self.q_block), _tile(self.page)

    @property
    def may_split(self) -> bool:
        """True if the kernels for short queries can take the call: the query heads that share a key
        head are a power of two, and that many rows divide a tile. Other calls run in the kernel for
        long queries."""
        shared = self.query.shape[1] // self.key.shape[1]
        return shared & (shared - 1) == 0 and self.tile[0] % shared == 0

    @property
    def splits(self) -> bool:
        """True if the call takes three kernels, of which two combine the results of the first;
        otherwise one kernel does all the work."""
        return self.may_split and self.num_tokens < SHORT

    def specialisation(self) -> tuple[Hashable, ...]:
        """Returns a key that is equal for two calls that one compiled kernel serves. The numbers of
        tokens, groups, columns and slots only matter by whether they are 1, and the query by
        whether it is short; a scale is a constant of the kernel. For a batch of several, all sizes
        matter: PyTorch doesn't split the keys of a batch whose size may vary."""
        heads = tuple((t.shape[1], _layout(t)) for t in (self.query, self.key, self.value))
        blocks = (self.q_block, self.page, kind_of(self.kv_num_blocks), kind_of(self.kv_indices))
        tokens = (self.num_tokens == 1, self.num_tokens < SHORT)
        sizes = tuple(tensor.shape for tensor in self.tensors) if self.is_batch else None
        constants = (self.query.dtype, self.query.shape[3], self.scale)
        mode = torch.is_inference_mode_enabled()
        return tokens, sizes, heads, blocks, constants, mode, kind_of(self.mask_mod)

    def would_compile(self) -> str:
        heads = f"{self.query.shape[1]}/{self.key.shape[1]} heads of {self.query.shape[3]}"
        return (
            f"flex_attention would have to be compiled for {_tokens(self.query)} "
            f"({self.query.dtype}, {heads}, blocks of {self.q_block} x {self.page}) during a "
            "capture: call it once with these shapes before"
        )


def _check_heads(query: Tensor, key: Tensor, value: Tensor) -> None:
    if query.dim() != 4 or query.shape[0] == 0 or query.shape[2] == 0:
        raise ValueError(
            "query must have the shape [batch, heads, tokens, head size], with at least one token, "
            f"not {list(query.shape)}"
        )
    heads, size = query.shape[1], query.shape[3]
    if key.dim() != 4 or key.shape[0] != 1 or key.shape != value.shape or key.shape[3] != size:
        raise ValueError(
            f"key and value must both have the shape [1, kv heads, slots, {size}], not "
            f"{list(key.shape)} and {list(value.shape)}"
        )
    if heads % key.shape[1]:
        raise ValueError(
            f"{heads} query heads can't share {key.shape[1]} key heads: give a multiple of them"
        )
    if size < SMALLEST_TILE:
        raise ValueError(
            f"FlexAttention's kernels need a head size of at least {SMALLEST_TILE}, not {size}"
        )
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if tensor.dtype != query.dtype or tensor.device != query.device:
            raise ValueError(
                f"{name} is {tensor.dtype} on {tensor.device}, and query {query.dtype} on "
                f"{query.device}: have them alike"
            )
        if tensor.stride(3) != 1:
            raise ValueError(
                f"the last dimension of {name} has a stride of {tensor.stride(3)}: it must be dense"
            )


def _check_blocks(query: Tensor, key: Tensor, block_mask: BlockMask) -> None:
    q_block, page = block_mask.BLOCK_SIZE
    batch, tokens, slots = query.shape[0], query.shape[2], key.shape[2]
    if block_mask.full_kv_num_blocks is not None:
        raise ValueError(
            "flex_attention takes block masks without full blocks: list every block in kv_indices"
        )
    for name, tensor, dims in (
        ("kv_num_blocks", block_mask.kv_num_blocks, 3),
        ("kv_indices", block_mask.kv_indices, 4),
    ):
        if tensor.dim() != dims or tensor.shape[:2] != (batch, 1):
            wanted = f"[{batch}, 1, groups" + (", columns]" if dims == 4 else "]")
            raise ValueError(f"{name} must have the shape {wanted}, not {list(tensor.shape)}")
        if tensor.dtype != torch.int32 or tensor.device != query.device or tensor.stride(-1) != 1:
            raise ValueError(
                f"{name} must be dense int32 on {query.device}, not {tensor.dtype} on "
                f"{tensor.device} with a stride of {tensor.stride(-1)}"
            )
    groups = min(block_mask.kv_num_blocks.shape[2], block_mask.kv_indices.shape[2])
    if groups * q_block < tokens:
        raise ValueError(
            f"{groups} groups of {q_block} query tokens don't cover {tokens}: give "
            f"{-(-tokens // q_block)} rows of blocks"
        )
    if tuple(block_mask.seq_lengths) != (tokens, slots):
        raise ValueError(
            f"the block mask was made for seq_lengths {tuple(block_mask.seq_lengths)}, and this "
            f"call has {tokens} query tokens and {slots} slots: make one for them"
        )
    if slots % page:
        raise ValueError(f"{slots} slots are no whole number of blocks of {page}")
    for what, size in (("query tokens", q_block), ("slots", page)):
        if _tile(size) < SMALLEST_TILE:
            raise ValueError(
                f"blocks of {size} {what} can't be computed in tiles: take a multiple of "
                f"{SMALLEST_TILE}"
            )


def _tokens(query: Tensor) -> str:
    batch, tokens = query.shape[0], query.shape[2]
    return f"{tokens} query tokens" if batch == 1 else f"a batch of {batch} x {tokens} query tokens"


def _tile(size: int) -> int:
    """Returns the largest power of two that divides the block size, but at most `LARGEST_TILE`."""
    return min(size & -size, LARGEST_TILE)


def _layout(tensor: Tensor) -> tuple[tuple[int, bool], ...]:
    """Returns the tensor's dimensions in order of memory, from the smallest stride up, each with
    True if no memory lies unused between its elements. Dimensions of size 1 are left out, because
    their stride doesn't matter."""
    layout, dense = [], 1
    for d in sorted((d for d in range(4) if tensor.shape[d] > 1), key=tensor.stride):
        layout.append((d, tensor.stride(d) == dense))
        dense = tensor.stride(d) * tensor.shape[d]
    return tuple(layout)
