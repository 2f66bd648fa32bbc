"""The gates of the delta rule: how much of the state stays, and how strongly a token writes."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from debubble.accelerator import Work, launch
from solutions.common.decoder.shape import FLOATS


@triton.jit(
    # One compiled kernel serves any number of gates, and slices that start at any address.
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
    LINEAR_FROM: tl.constexpr,  # softplus(x) is x from there on
    BLOCK: tl.constexpr,
):
    """Computes BLOCK gates g and BLOCK gates beta."""
    gate = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    exists = gate < num_gates
    token = gate // HV
    head = gate % HV
    rate = tl.exp(tl.load(A_log + head, mask=exists, other=0.0).to(tl.float32))
    step = tl.load(a + token * a_stride + head, mask=exists, other=0.0).to(tl.float32)
    step += tl.load(dt_bias + head, mask=exists, other=0.0).to(tl.float32)
    is_linear = step > LINEAR_FROM
    # log(1 + x) to the last digit: the quotient restores what the sum with 1 rounds away.
    x = tl.exp(tl.where(is_linear, LINEAR_FROM, step))
    above_one = 1.0 + x
    is_lost = above_one == 1.0
    log_sum = tl.log(above_one) * (x / tl.where(is_lost, 1.0, above_one - 1.0))
    softplus = tl.where(is_linear, step, tl.where(is_lost, x, log_sum))
    tl.store(g + gate, -rate * softplus, mask=exists)
    strength = tl.load(b + token * b_stride + head, mask=exists, other=0.0).to(tl.float32)
    tl.store(beta + gate, 1.0 / (1.0 + tl.exp(-strength)), mask=exists)


BLOCK = 256
LINEAR_FROM = 20.0
"""A number above which log(1 + exp(x)) is computed as x, its value in float32."""


def fused_gdn_gating(
    A_log: torch.Tensor, a: torch.Tensor, b: torch.Tensor, dt_bias: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns (g, beta), both [1, T, HV] float32, in one launch (vLLM #38361).

    g = -exp(A_log) softplus(a + dt_bias) is the logarithm of the decay, beta = sigmoid(b). `a` and
    `b`: [T, HV], the heads of a token contiguous; `A_log` and `dt_bias`: [HV], contiguous; each of
    bfloat16, float16 or float32. Raises ValueError for other tensors.
    """
    _check(A_log, a, b, dt_bias)
    num_tokens, num_heads = a.shape
    g = torch.empty(1, num_tokens, num_heads, dtype=torch.float32, device=a.device)
    beta = torch.empty_like(g)
    num_gates = num_tokens * num_heads
    launch(
        gating_kernel,
        (triton.cdiv(num_gates, BLOCK),),
        g,
        beta,
        A_log,
        a,
        b,
        dt_bias,
        num_gates,
        a.stride(0),
        b.stride(0),
        HV=num_heads,
        LINEAR_FROM=LINEAR_FROM,
        BLOCK=BLOCK,
        num_warps=4,
        work=lambda: Work(20.0 * num_gates, g.nbytes * 2 + a.nbytes * 2, tensor_cores=False),
    )
    return g, beta


def _check(A_log: torch.Tensor, a: torch.Tensor, b: torch.Tensor, dt_bias: torch.Tensor) -> None:
    for name, tensor in (("a", a), ("b", b)):
        if tensor.dim() != 2 or tensor.shape != a.shape:
            raise ValueError(
                f"{name} of shape {list(tensor.shape)}, with a of {list(a.shape)}: both must be "
                "[num_tokens, num_value_heads]"
            )
        if tensor.shape[1] > 1 and tensor.stride(1) != 1:
            raise ValueError(
                f"{name} of strides {tensor.stride()}: the heads of a token must be contiguous"
            )
    for name, tensor in (("A_log", A_log), ("dt_bias", dt_bias)):
        if tensor.shape != a.shape[1:] or not tensor.is_contiguous():
            raise ValueError(
                f"{name} of shape {list(tensor.shape)} for {a.shape[1]} heads: make it "
                f"[{a.shape[1]}], contiguous"
            )
    for name, tensor in (("A_log", A_log), ("a", a), ("b", b), ("dt_bias", dt_bias)):
        if tensor.dtype not in FLOATS:
            raise ValueError(f"{name} of {tensor.dtype}: use bfloat16, float16 or float32")
