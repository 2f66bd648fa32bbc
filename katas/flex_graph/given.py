"""The code that the exercises in this folder are given.

`debubble check --write-stubs` writes this file. To change a function, copy it into your exercise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import torch

from debubble.accelerator import Graph

BLOCK_SIZES = (16, 32, 64, 128)
ALONE = 1
MOST_SLOTS = 2**31 - 1
MaskMod = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
PAGE = 16
Q_BLOCK = 16


def is_integer(value: object) -> bool:
    """Returns True for integers of Python and numpy, but not for True and False."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_counts(config: object, names: Iterable[str]) -> None:
    """Raises ValueError for the first of the fields `names` of `config` that is no integer, or
    below 1."""
    for name in names:
        value = getattr(config, name)
        if not is_integer(value):
            raise ValueError(f"{name} {value!r}: it must be an integer")
        if value < 1:
            raise ValueError(f"{name} {value}: it must be at least 1")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The scheduler's maxima: buffers and graphs of these sizes fit every step.

    Raises ValueError for values that are impossible.
    """

    max_num_seqs: int
    """Requests of one step."""
    max_num_batched_tokens: int
    """Tokens of one step, of all its requests."""
    max_model_len: int
    """Tokens of one request, those computed before included."""
    num_gpu_blocks: int
    """Pages of the KV cache. Block 0 is the null block, which belongs to no request."""
    block_size: int = 16
    """Tokens of a page."""
    q_block: int = 16
    """Query tokens of a group, which share one list of pages; ALONE for groups of one."""

    def __post_init__(self) -> None:
        check_counts(self, [field.name for field in fields(self)])
        for name, sizes in (("block_size", BLOCK_SIZES), ("q_block", (ALONE, *BLOCK_SIZES))):
            if getattr(self, name) not in sizes:
                known = ", ".join(map(str, sizes))
                raise ValueError(f"{name} {getattr(self, name)}: choose one of {known}")
        if self.num_gpu_blocks < 2:
            raise ValueError(
                f"num_gpu_blocks {self.num_gpu_blocks}: block 0 belongs to no request, so give "
                "the cache at least 2"
            )
        if self.num_slots > MOST_SLOTS:
            raise ValueError(
                f"num_gpu_blocks {self.num_gpu_blocks} of {self.block_size} tokens: slots are "
                f"int32, so use at most {MOST_SLOTS // self.block_size} blocks"
            )

    @property
    def pages_per_seq(self) -> int:
        """The pages of the longest request, and so the columns of a block table."""
        return -(-self.max_model_len // self.block_size)

    @property
    def groups(self) -> int:
        """The number of groups of q_block tokens in the largest step."""
        return self.groups_of(self.max_num_batched_tokens)

    @property
    def num_slots(self) -> int:
        """The number of tokens that fit into the KV cache, block 0 included."""
        return self.num_gpu_blocks * self.block_size

    def groups_of(self, num_tokens: int) -> int:
        """Returns how many groups of q_block tokens `num_tokens` tokens need."""
        return -(-num_tokens // self.q_block)

    def pages_of(self, num_tokens: int) -> int:
        """Returns how many pages `num_tokens` tokens of one request need."""
        return -(-num_tokens // self.block_size)


class MetadataTensors(NamedTuple):
    """The tensors of a step that attention reads, int32 on the device. Buffers have the sizes of
    the largest step: S requests, T tokens, and G groups of tokens with up to W pages each."""

    query_start_loc: torch.Tensor
    """[S + 1]: where each request's tokens start, then the end of the last one's."""
    seq_lens: torch.Tensor
    """[S]: tokens of each request, with those that were computed before."""
    decode_offset: torch.Tensor
    """[S]: how many tokens of each request were computed before."""
    doc_ids: torch.Tensor
    """[T]: the request of each token."""
    kv_num_blocks: torch.Tensor
    """[G]: how many pages each group of tokens needs."""
    kv_indices: torch.Tensor
    """[G, W + 1]: the pages that each group needs, then -1."""


def _described(tensor: torch.Tensor) -> str:
    return f"{tensor.dtype} {list(tensor.shape)} on {tensor.device}"


def copy_to_persistent(dst: torch.Tensor, src: torch.Tensor) -> torch.Tensor:
    """Copies `src` to the start of `dst`, and returns that part of `dst`, in the shape of `src`
    (vLLM #36298). The part has the strides of `dst` in every step, so rows stay where a graph
    captured them. If `src` is this part of `dst` already, nothing is copied. An empty `src`
    returns an empty part that begins where `dst` begins.

    Raises ValueError if `src` is larger in some dimension, of another dtype, or on another device.
    """
    if dst.dim() != src.dim() or dst.dtype != src.dtype or dst.device != src.device:
        raise ValueError(
            f"{_described(src)} can't be copied to {_described(dst)}: make them alike in all but "
            "their sizes"
        )
    if any(size > room for size, room in zip(src.shape, dst.shape, strict=True)):
        raise ValueError(
            f"a tensor of {list(src.shape)} for persistent memory of {list(dst.shape)}: schedule "
            "less, or make the limits larger"
        )
    part = dst[tuple(map(slice, src.shape))]
    if (src.data_ptr(), src.stride()) == (part.data_ptr(), part.stride()):
        return src
    return part.copy_(src)


class Captured(NamedTuple):
    graph: Graph
    output: torch.Tensor
    """The tensor to which each replay writes its result."""


class LayerMask(NamedTuple):
    """The keys of a request that a layer's query sees. No key after the query itself is visible."""

    sliding_window: int | None = None
    """The number of keys in the window, which ends with the query's own key; None for all keys."""
    logical_mask_mod: MaskMod | None = None
    """A further condition on visible keys, on positions within one request; None for none."""


class PageLists(NamedTuple):
    """The arguments of attention: the pages that each group reads, and which of their keys it
    sees."""

    kv_num_blocks: torch.Tensor
    """[groups] int32: how many pages each group reads."""
    kv_indices: torch.Tensor
    """[groups, num_pages + 1] int32: the pages of each group, ascending, then -1."""
    mask_mod: MaskMod
    """Returns True if a token of the step (query) sees a slot of the cache (key)."""


class StepTensors(NamedTuple):
    """Tensors that all steps share, on the device. Each step writes to them before `build`."""

    request: torch.Tensor
    """[most tokens] int64: the request of each token."""
    position: torch.Tensor
    """[most tokens] int64: the position of each token in its request; -1 for padding."""
    physical_to_logical: torch.Tensor
    """[most requests, num_pages] int64: the index of each page of the cache among the request's
    pages; -1 for pages of other requests."""


def mask_mod_of(mask: LayerMask, step: StepTensors) -> MaskMod:
    """Returns the layer's mask as a function of slots of the cache."""
    window, also = mask
    requests, positions, physical_to_logical = step

    def mask_mod(
        b: torch.Tensor, h: torch.Tensor, q: torch.Tensor, slot: torch.Tensor
    ) -> torch.Tensor:
        position = positions[q]
        logical_page = physical_to_logical[requests[q], slot // PAGE]
        key = logical_page * PAGE + slot % PAGE
        sees = (logical_page >= 0) & (key <= position)
        if window is not None:
            sees = sees & (key > position - window)
        if also is not None:
            # It is asked of padding and of others' keys too, and may look up something by position.
            sees = sees & also(b, h, position.clamp(min=0), key.clamp(min=0))
        return sees

    return mask_mod


def needed_pages(mask: LayerMask, step: StepTensors, num_tokens: int) -> torch.Tensor:
    """Returns [groups, num_pages] bool: True for a page with a key that a token of the group may
    see."""
    position = step.position[:num_tokens, None]
    logical_page = step.physical_to_logical[step.request[:num_tokens]]
    needed = (logical_page >= 0) & (logical_page <= position // PAGE)
    if mask.sliding_window is not None:
        first = position - mask.sliding_window + 1
        needed = needed & (logical_page >= first // PAGE)
    # The tokens of a group are of different requests: it reads what any of them needs.
    return needed.view(-1, Q_BLOCK, needed.shape[1]).any(1)
