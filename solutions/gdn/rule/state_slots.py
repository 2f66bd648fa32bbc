"""Finds a sequence's tokens, and its slots in a pool of states, in one way for all kernels.

A sequence has one slot, where its state is read and overwritten. With drafted tokens it has a row
of slots instead: it starts from the state after the last accepted token, in column
num_accepted_tokens - 1, and writes the state after its token j to column j, so that the next step
can go back to any of them. The host checks shapes and dtypes; kernels call the functions below that
are Triton's.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import triton
import triton.language as tl


def check_state_slots(
    num_seqs: int,
    starts: Mapping[str, torch.Tensor | None],
    indices: Mapping[str, torch.Tensor | None],
    num_accepted_tokens: torch.Tensor | None,
) -> None:
    """Raises ValueError unless these can be the starts and the slots of `num_seqs` sequences:
    `starts` is [num_seqs + 1], `indices` [num_seqs], or [num_seqs, 1 + drafts] with
    `num_accepted_tokens` [num_seqs]; all int32. `starts` and `indices` have one tensor each, under
    the name of the caller's argument.

    Only shapes, dtypes and strides are checked. Values are not, since the host would have to wait.
    """
    if num_seqs < 0:
        raise ValueError(
            f"{next(iter(starts))} is empty: give where each sequence starts, then the end of the "
            "last one; without sequences that is one 0"
        )
    sizes = {name: (tensor, num_seqs + 1) for name, tensor in starts.items()}
    sizes["num_accepted_tokens"] = num_accepted_tokens, num_seqs
    for name, (tensor, size) in sizes.items():
        if tensor is not None and (
            tensor.shape != (size,) or tensor.dtype != torch.int32 or not tensor.is_contiguous()
        ):
            raise ValueError(
                f"{name} is {tensor.dtype} {list(tensor.shape)}: for {num_seqs} sequences make it "
                f"torch.int32 [{size}], contiguous"
            )
    speculative = num_accepted_tokens is not None
    for name, tensor in indices.items():
        if tensor is None:
            if speculative:
                raise ValueError(f"num_accepted_tokens without {name}: give each token a slot")
            continue
        if (
            tensor.dim() != 1 + speculative
            or len(tensor) != num_seqs
            or tensor.dtype != torch.int32
        ):
            shape = f"[{num_seqs}, 1 + drafts]" if speculative else f"[{num_seqs}]"
            raise ValueError(
                f"{name} is {tensor.dtype} {list(tensor.shape)}: make it torch.int32 {shape}; it "
                "has a row for each sequence only together with num_accepted_tokens"
            )
        if speculative and tensor.shape[1] > 1 and tensor.stride(1) != 1:
            raise ValueError(
                f"{name} of strides {tensor.stride()}: the slots of a sequence must be contiguous"
            )


@triton.jit
def tokens_of(starts, sequence, num_tokens):
    """Returns (index of the first token, index after the last token) of a sequence, int32 and both
    in [0, num_tokens]. If the numbers on the device are wrong, so is the result, but nothing
    outside of the tokens is read or written."""
    first = tl.minimum(tl.maximum(tl.load(starts + sequence), 0), num_tokens)
    end = tl.minimum(tl.maximum(tl.load(starts + sequence + 1), 0), num_tokens)
    return first, end


@triton.jit
def first_slot(slots, num_accepted_tokens, sequence, num_columns, SPECULATIVE: tl.constexpr):
    """Returns the slot of the state that a sequence starts from, int64. With SPECULATIVE that is
    the slot in its row after the last accepted token; -1 if there is no such column."""
    if SPECULATIVE:
        column = tl.load(num_accepted_tokens + sequence) - 1
        exists = (column >= 0) & (column < num_columns)
        slot = tl.load(slots + column, mask=exists, other=-1)
    else:
        slot = tl.load(slots)
    return slot.to(tl.int64)


@triton.jit
def slot_behind(slots, token, num_columns):
    """Returns the slot for the state after token `token` of a speculative sequence, int64; -1
    beyond its row of slots."""
    return tl.load(slots + token, mask=token < num_columns, other=-1).to(tl.int64)


@triton.jit
def expect_own(
    is_asked,
    slot,
    own_slots,
    sequence,
    index_stride,
    num_columns,
    starts,
    num_seqs,
    HAS_STARTS: tl.constexpr,
):
    """Asserts, if `is_asked`, that no other sequence writes `slot`. A sequence writes one slot of
    its row for each of its tokens, or its only slot for all. `own_slots` is the row of
    `sequence`."""
    BLOCK: tl.constexpr = 256
    slots = own_slots - tl.cast(sequence, tl.int64) * index_stride
    for first in range(0, tl.where(is_asked, num_seqs, 0), BLOCK):
        other = first + tl.arange(0, BLOCK)
        is_other = (other < num_seqs) & (other != sequence)
        length = tl.full([BLOCK], 1, tl.int32)
        if HAS_STARTS:
            length = tl.load(starts + other + 1, mask=is_other, other=0)
            length -= tl.load(starts + other, mask=is_other, other=0)
        for column in range(num_columns):
            writes = is_other & (column < length)
            place = slots + other.to(tl.int64) * index_stride + column
            theirs = tl.load(place, mask=writes, other=-1)
            tl.device_assert(
                (theirs != slot) | (theirs < 0),
                "two sequences with tokens have one slot: give each a slot of its own",
            )


@triton.jit
def store_zeros(rows, stride, count, mask):
    """Writes zeros to `count` rows, `stride` numbers apart. `rows` points to the numbers of the
    first row."""
    zeros = tl.zeros(mask.shape, rows.dtype.element_ty)
    for _ in range(count):
        tl.store(rows, zeros, mask=mask)
        rows += stride
