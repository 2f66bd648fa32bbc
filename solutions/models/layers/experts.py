"""A mixture of experts without a host sync: only the device knows how many tokens each expert has,
so the host launches as many programs as there can be tiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

from debubble.accelerator import Work, launch
from solutions.common.decoder.add_rms_norm import add_rms_norm
from solutions.common.decoder.layer import Hidden
from solutions.common.decoder.shape import DecoderConfig, check_counts
from solutions.common.decoder.silu_and_mul import silu_and_mul
from solutions.common.decoder.weights import norm_weight, projection

BLOCK_M = 16
"""Tokens of a tile: in a decode step an expert rarely has more."""
BLOCK_N, BLOCK_K = 64, 64


@dataclass(frozen=True, kw_only=True)
class ExpertShape:
    """The shape of the experts that replace an MLP. Raises ValueError for counts below 1, and for
    more experts of a token than there are."""

    num_experts: int
    experts_per_token: int
    expert_size: int
    """The intermediate size of each expert: rows of its gates, and of its up projection."""
    shared_size: int
    """The intermediate size of the shared expert, which all tokens use."""
    normalised: bool = True
    """True if the weights of a token's experts are scaled so that they sum to 1."""

    def __post_init__(self) -> None:
        names = ("num_experts", "experts_per_token", "expert_size", "shared_size")
        check_counts(self, names)
        if self.experts_per_token > self.num_experts:
            raise ValueError(
                f"experts_per_token {self.experts_per_token}: there are {self.num_experts} experts"
            )

    def __call__(self, config: DecoderConfig, device: torch.device) -> Experts:
        """Returns experts of this shape with random weights, as the `mlp` of an Architecture."""
        return Experts(self, config, device)


class Experts:
    """The experts that replace an MLP: norm, router, each token's experts, and one shared expert,
    which all tokens use through a gate of its own."""

    def __init__(self, shape: ExpertShape, config: DecoderConfig, device: torch.device) -> None:
        self.shape, self.eps = shape, config.norm_eps
        hidden, count = config.hidden_size, self.shape.num_experts
        of_expert, shared = self.shape.expert_size, self.shape.shared_size
        self.norm = norm_weight(config, device)
        self.router = projection(count, hidden, config, device)
        self.gate_up = projection(count * 2 * of_expert, hidden, config, device)
        """[num_experts * 2 * expert_size, hidden_size]: gates, then up projections, of one expert
        after the other."""
        self.down = projection(count * hidden, of_expert, config, device)
        """[num_experts * hidden_size, expert_size]"""
        self.shared_gate_up = projection(2 * shared, hidden, config, device)
        self.shared_down = projection(hidden, shared, config, device)
        self.shared_gate = projection(1, hidden, config, device)

    def forward(self, hidden: Hidden) -> Hidden:
        normed = add_rms_norm(hidden.residual, hidden.update, self.norm, self.eps)
        routes = route(F.linear(normed, self.router), self.shape)
        gated = silu_and_mul(expert_linear(normed, self.gate_up, routes, gathers=True))
        of_experts = expert_linear(gated, self.down, routes, gathers=False)
        mixed = of_experts.unflatten(0, (-1, self.shape.experts_per_token)).sum(1)
        shared = F.linear(silu_and_mul(F.linear(normed, self.shared_gate_up)), self.shared_down)
        shared = shared * F.linear(normed, self.shared_gate).sigmoid()
        return Hidden(hidden.residual, mixed + shared)


class Routes(NamedTuple):
    """The assignment of T tokens, with k experts each, to experts. Row t * k + j is the j-th expert
    of token t."""

    rows: torch.Tensor
    """[T * k] int64: the rows, sorted by expert."""
    weights: torch.Tensor
    """[T * k] of the activations' dtype: the weight of each row in its token's sum."""
    starts: torch.Tensor
    """[num_experts + 1] int64: where each expert's rows begin in `rows`, then their number."""
    tile_ends: torch.Tensor
    """[num_experts] int64: the number of tiles, of BLOCK_M rows each, that the experts up to and
    including each one need."""


def route(logits: torch.Tensor, shape: ExpertShape) -> Routes:
    """Returns the assignment of each token to its most likely experts, by the router's `logits` [T,
    num_experts]. Doesn't wait for the device."""
    weights, experts = logits.softmax(-1, dtype=torch.float32).topk(shape.experts_per_token)
    if shape.normalised:
        weights = weights / weights.sum(-1, keepdim=True)
    experts_of_rows, rows = experts.flatten().sort(stable=True)
    all_experts = torch.arange(shape.num_experts + 1, device=logits.device)
    starts = torch.searchsorted(experts_of_rows, all_experts)
    tile_ends = ((starts.diff() + (BLOCK_M - 1)) // BLOCK_M).cumsum(0)
    return Routes(rows, weights.to(logits.dtype).flatten(), starts, tile_ends)


def expert_linear(
    x: torch.Tensor, weight: torch.Tensor, routes: Routes, *, gathers: bool
) -> torch.Tensor:
    """Returns [T * k, N]: each row times the weight of its expert, in one launch.

    `weight` is [num_experts * N, K]. With `gathers`, x is [T, K] and each row of the result reads
    its token's row of x. Without, x is [T * k, K], and the result is multiplied by the row's
    weight. Raises ValueError for other shapes or different dtypes.
    """
    num_rows, num_experts = len(routes.rows), len(routes.tile_ends)
    tokens_of = num_rows // len(x) if gathers and len(x) else 1
    right = x.dim() == 2 and x.is_contiguous() and weight.is_contiguous()
    if not right or x.shape[1] != weight.shape[1] or x.dtype != weight.dtype:
        raise ValueError(
            f"x is {x.dtype} {list(x.shape)} for experts of {weight.dtype} {list(weight.shape)}: "
            "make both of one type, contiguous, with as many columns"
        )
    size = len(weight) // num_experts
    output = x.new_empty(num_rows, size)
    if not num_rows:
        return output
    most_tiles = triton.cdiv(num_rows, BLOCK_M) + min(num_experts, num_rows)
    launch(
        expert_linear_kernel,
        (most_tiles, triton.cdiv(size, BLOCK_N)),
        output,
        x,
        weight,
        routes.rows,
        routes.weights,
        routes.starts,
        routes.tile_ends,
        tokens_of,
        EXPERTS=num_experts,
        EXPERTS_PADDED=triton.next_power_of_2(num_experts),
        N=size,
        K=x.shape[1],
        GATHERS=gathers,
        UPCAST=triton.knobs.runtime.interpret,
        BLOCK_M=BLOCK_M,
        BLOCK_N=BLOCK_N,
        BLOCK_K=BLOCK_K,
        num_warps=4,
        work=lambda: Work(
            2.0 * num_rows * size * x.shape[1],
            min(num_experts, num_rows) * size * x.shape[1] * x.element_size(),
            tensor_cores=x.dtype != torch.float32,
        ),
    )
    return output


@triton.jit(
    # One compiled kernel serves any number of tokens.
    do_not_specialize=["tokens_of"],
)
def expert_linear_kernel(
    output,  # [num_rows, N], contiguous
    x,  # [num_tokens, K] with GATHERS, else [num_rows, K]; contiguous
    weight,  # [EXPERTS, N, K], contiguous
    rows,  # [num_rows] int64, sorted by expert
    weights,  # [num_rows]; not read with GATHERS
    starts,  # [EXPERTS + 1] int64
    tile_ends,  # [EXPERTS] int64
    tokens_of,  # rows of a token
    EXPERTS: tl.constexpr,
    EXPERTS_PADDED: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    GATHERS: tl.constexpr,
    UPCAST: tl.constexpr,  # the interpreter's tl.dot mistakes bfloat16 for integers
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Computes BLOCK_M rows and BLOCK_N columns of one expert's output in each program."""
    tile = tl.program_id(0)
    number = tl.arange(0, EXPERTS_PADDED)
    ends = tl.load(tile_ends + number, mask=number < EXPERTS, other=2147483647)
    expert = tl.sum((ends <= tile).to(tl.int32), 0)
    # The host launches the most tiles possible: the rest has nothing to do.
    if expert >= EXPERTS:
        return
    first_tile = tl.load(tile_ends + expert - 1, mask=expert > 0, other=0)
    first = tl.load(starts + expert) + (tile - first_tile) * BLOCK_M
    place = first + tl.arange(0, BLOCK_M)
    exists = place < tl.load(starts + expert + 1)
    row = tl.load(rows + place, mask=exists, other=0)
    source = row // tokens_of if GATHERS else row

    column = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    weight += expert.to(tl.int64) * N * K
    total = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, K, BLOCK_K):
        inner = start + tl.arange(0, BLOCK_K)
        mask = exists[:, None] & (inner < K)[None, :]
        left = tl.load(x + (source * K)[:, None] + inner[None, :], mask=mask, other=0.0)
        mask = (column < N)[:, None] & (inner < K)[None, :]
        right = tl.load(weight + (column * K)[:, None] + inner[None, :], mask=mask, other=0.0)
        if UPCAST:
            total = tl.dot(left.to(tl.float32), tl.trans(right.to(tl.float32)), total)
        else:
            total = tl.dot(left, tl.trans(right), total, input_precision="ieee")
    if not GATHERS:
        total *= tl.load(weights + row, mask=exists, other=0.0).to(tl.float32)[:, None]
    mask = exists[:, None] & (column < N)[None, :]
    place = (row * N)[:, None] + column[None, :]
    tl.store(output + place, total.to(output.dtype.element_ty), mask=mask)
