"""What the kernels that go token by token have in common: whose slot it is, and who gets nothing.

Device functions: kernels call them, the host does not.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def first_slot(slots, num_accepted_tokens, sequence, num_columns, SPECULATIVE: tl.constexpr):
    """int64: the slot that a sequence goes on from, of its row of slots; -1 if there is no such
    column."""
    if SPECULATIVE:
        column = tl.load(num_accepted_tokens + sequence) - 1
        exists = (column >= 0) & (column < num_columns)
        slot = tl.load(slots + column, mask=exists, other=-1)
    else:
        slot = tl.load(slots)
    return slot.to(tl.int64)


@triton.jit
def slot_behind(slots, token, num_columns):
    """int64: where a speculative sequence leaves the state behind its token; -1 beyond its row."""
    return tl.load(slots + token, mask=token < num_columns, other=-1).to(tl.int64)


@triton.jit
def store_zeros(rows, stride, count, mask):
    """Zeros in `count` rows, of which `rows` are the places in the first one."""
    zeros = tl.zeros(mask.shape, rows.dtype.element_ty)
    for _ in range(count):
        tl.store(rows, zeros, mask=mask)
        rows += stride
