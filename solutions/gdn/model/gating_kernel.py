"""The gates of the delta rule, from what the layer projects: one pass over two numbers a head."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(
    # Whatever a step holds, and wherever a slice of it starts, it is the same compiled kernel.
    do_not_specialize=["num_gates"],
    do_not_specialize_on_alignment=["a", "b"],
)
def gating_kernel(
    g,  # [num_tokens, HV] float32, contiguous
    beta,  # [num_tokens, HV] float32, contiguous
    A_log,  # [HV]
    a,  # [num_tokens, HV], the heads of a token contiguous
    b,  # [num_tokens, HV], likewise
    dt_bias,  # [HV]
    num_gates,
    a_stride,
    b_stride,
    HV: tl.constexpr,
    LINEAR_FROM: tl.constexpr,  # from there on softplus(x) is x
    BLOCK: tl.constexpr,
):
    """One program: BLOCK gates of both kinds."""
    gate = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    exists = gate < num_gates
    token = gate // HV
    head = gate % HV
    rate = tl.exp(tl.load(A_log + head, mask=exists, other=0.0).to(tl.float32))
    step = tl.load(a + token * a_stride + head, mask=exists, other=0.0).to(tl.float32)
    step += tl.load(dt_bias + head, mask=exists, other=0.0).to(tl.float32)
    is_linear = step > LINEAR_FROM
    # log(1 + x) to the last digit: the quotient undoes what the sum with 1 rounds away.
    x = tl.exp(tl.where(is_linear, LINEAR_FROM, step))
    above_one = 1.0 + x
    is_lost = above_one == 1.0
    log_sum = tl.log(above_one) * (x / tl.where(is_lost, 1.0, above_one - 1.0))
    softplus = tl.where(is_linear, step, tl.where(is_lost, x, log_sum))
    tl.store(g + gate, -rate * softplus, mask=exists)
    strength = tl.load(b + token * b_stride + head, mask=exists, other=0.0).to(tl.float32)
    tl.store(beta + gate, 1.0 / (1.0 + tl.exp(-strength)), mask=exists)
