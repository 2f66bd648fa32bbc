"""`scaled_dot_product_attention` on sim, with the implementation that CUDA would choose."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from debubble.private.torch import scaled_dot_product_attention_math
from debubble.rules.attention import way_of_attention

from ..computing import Computation
from ..dispatch import Dispatcher
from .gradient import differentiable

aten = torch.ops.aten
OPERATOR = aten.scaled_dot_product_attention.default
MASK_ALIGNMENT = 8
"""The fused kernel needs masks whose row length is a multiple of this number. Other masks are
padded."""


def install(dispatcher: Dispatcher, library: torch.library.Library) -> None:
    for_gradients = partial(attention, partial(differentiable, dispatcher, OPERATOR))
    for key in ("PrivateUse1", "AutogradPrivateUse1"):
        library.impl("scaled_dot_product_attention", dispatcher.aside(for_gradients), key)
    in_one_piece = Computation(dispatcher.device, OPERATOR)

    def run(args: tuple, kwargs: dict) -> torch.Tensor:
        if not torch.is_inference_mode_enabled():
            return in_one_piece(args, kwargs)
        # In inference mode PyTorch passes by the keys above.
        return attention(lambda *args, **kwargs: in_one_piece(args, kwargs), *args, **kwargs)

    dispatcher.runs_by(OPERATOR, run)


def attention(
    whole: Callable[..., torch.Tensor],
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """Runs the operator as CUDA would; `whole` runs it as one kernel, with a mask of numbers."""
    mask = attn_mask
    if mask is not None and mask.dtype == torch.bool:
        mask = _added(mask, query)
    way = way_of_attention(query, key, value, mask, is_causal, enable_gqa)
    rest = {"scale": scale, "enable_gqa": enable_gqa}
    if way == "step by step" or (mask is not None and is_causal):
        return scaled_dot_product_attention_math.default(
            query, key, value, mask, dropout_p, is_causal, **rest
        )[0]
    if mask is not None and mask.size(-1) % MASK_ALIGNMENT:
        length = mask.size(-1)
        missing = MASK_ALIGNMENT - length % MASK_ALIGNMENT
        mask = torch.nn.functional.pad(mask, [0, missing])[..., :length]
    return whole(query, key, value, mask, dropout_p, is_causal, **rest)


def _added(mask: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Returns a bool mask as numbers to add to the scores: 0 for True, -inf for False, with the
    dtype and device of `like`."""
    scalar = partial(torch.scalar_tensor, dtype=like.dtype, device=like.device)
    return torch.where(mask, scalar(0.0), scalar(float("-inf")))
