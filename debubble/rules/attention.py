"""Predicts how CUDA runs `scaled_dot_product_attention`: as one fused kernel, or step by step.

PyTorch tries a library's kernel first and falls back on plain products and a softmax. It makes no
difference here whether cuDNN's or flash attention's kernel runs: each is one launch.
"""

from __future__ import annotations

from typing import Literal

import torch

Way = Literal["fused", "step by step"]
HALVES = (torch.float16, torch.bfloat16)
LARGEST_HEAD = 256
"""The largest head size that the kernels for halves take."""
ALIGNED_BYTES = 16
"""The kernel for fp32, and for any mask, reads a head in pieces of this many bytes."""


def way_of_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None,
    is_causal: bool, grouped: bool,
) -> Way:  # fmt: skip
    """Returns "fused" or "step by step" for query [batch, heads, rows, head], key and value [batch,
    heads, columns, head]."""
    inputs = (query, key, value)
    if any(t.dim() != 4 or t.numel() == 0 or t.stride(-1) != 1 for t in inputs):
        return "step by step"
    if not query.size(0) == key.size(0) == value.size(0):
        return "step by step"
    same_heads = query.size(1) == key.size(1) == value.size(1)
    if _takes_halves(*inputs, mask, is_causal) and (same_heads or grouped):
        return "fused"
    return "fused" if same_heads and _takes_any(*inputs, mask) else "step by step"


def _takes_halves(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None,
    is_causal: bool,
) -> bool:  # fmt: skip
    is_square = query.size(-2) == key.size(-2)
    one_head_size = query.size(-1) == key.size(-1) == value.size(-1) <= LARGEST_HEAD
    return query.dtype in HALVES and mask is None and one_head_size and (is_square or not is_causal)


def _takes_any(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None
) -> bool:
    step = ALIGNED_BYTES // query.element_size()
    aligned = query.size(-1) == key.size(-1) and not any(t.size(-1) % step for t in (query, value))
    dense_mask = mask is None or mask.stride(-1) == 1 or mask.size(-1) == 1
    return query.dtype in (*HALVES, torch.float32) and aligned and dense_mask
