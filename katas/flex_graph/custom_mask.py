"""Before the first layer (chapter 04, hard, 40 minutes).

Attention reads whole pages of the KV cache, so it is told which ones: a list for each group of 16
tokens. Layers differ in what they see. Some have a sliding window, some a mask of their own, and
many see the same. The class below gets all that right. But it makes the lists when a layer asks for
them, in the model's forward: anew for each layer, and `nonzero` waits for the device. No graph can
capture that.

Make the lists in `build`, which is called in each step before the model, once for all layers with
the same mask, and without a wait. `lists_of` must only hand out what there is. The model is
captured and `build` is not, so a replay looks for a step's lists where those of its capture were.

You need to know FlexAttention's `mask_mod`, and what a block mask is made of.

Edit this file, then run

    pytest katas/flex_graph/test_custom_mask.py

Stuck?         debubble hint custom_mask
Start afresh?  debubble reset custom_mask
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

MaskMod = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
PAGE = 16
Q_BLOCK = 16


# Yours to edit, from here on.
class LayerMasks:
    """The page lists of all layers, of which many see the same (vLLM #36298).

    A runner calls `build` in each step, before the model; in its forward each layer calls
    `lists_of`. The model is captured, and `build` need not be.
    """

    def __init__(self, masks: dict[str, LayerMask], step: StepTensors) -> None:
        """`masks`: what each layer sees, by its name."""
        self.masks, self.step = masks, step

    def build(self, num_tokens: int) -> None:
        """Lists the pages of a step of `num_tokens` tokens, a multiple of Q_BLOCK."""
        self.num_tokens = num_tokens

    def lists_of(self, layer: str) -> PageLists:
        """What the layer's attention is told in this step."""
        mask = self.masks[layer]
        needed = needed_pages(mask, self.step, self.num_tokens)
        num_groups, num_pages = needed.shape
        kv_num_blocks = needed.sum(1, dtype=torch.int32)
        kv_indices = torch.full(
            (num_groups, num_pages + 1), -1, dtype=torch.int32, device=needed.device
        )
        for group, is_needed in enumerate(needed):
            pages = is_needed.nonzero().flatten()
            kv_indices[group, : len(pages)] = pages
        return PageLists(kv_num_blocks, kv_indices, mask_mod_of(mask, self.step))


# region Given: what the code above uses. You may change it, and need not.


class LayerMask(NamedTuple):
    """What a layer sees of a request's keys. None is behind the query itself."""

    sliding_window: int | None = None
    """As many keys as that, the last of them the query's own; None for all."""
    logical_mask_mod: MaskMod | None = None
    """Only those for which this holds too: of positions in one request."""


class StepTensors(NamedTuple):
    """The same tensors for all steps, on the device. Each step writes to them before `build`."""

    request: torch.Tensor
    """[most tokens] int64: whose token this is."""
    position: torch.Tensor
    """[most tokens] int64: which of the request's tokens it is; -1 for one that is padding."""
    physical_to_logical: torch.Tensor
    """[most requests, num_pages] int64: which of the request's pages this page of the cache is; -1
    for the pages of others."""


class PageLists(NamedTuple):
    """What attention is told: the pages that each group reads, and which of their keys it sees."""

    kv_num_blocks: torch.Tensor
    """[groups] int32: how many pages."""
    kv_indices: torch.Tensor
    """[groups, num_pages + 1] int32: which, in ascending order, and -1 behind them."""
    mask_mod: MaskMod
    """Whether a token of the step (query) sees a slot of the cache (key)."""


def needed_pages(mask: LayerMask, step: StepTensors, num_tokens: int) -> torch.Tensor:
    """[groups, num_pages] bool: what a token of the group may see lies on this page."""
    position = step.position[:num_tokens, None]
    logical_page = step.physical_to_logical[step.request[:num_tokens]]
    needed = (logical_page >= 0) & (logical_page <= position // PAGE)
    if mask.sliding_window is not None:
        first = position - mask.sliding_window + 1
        needed = needed & (logical_page >= first // PAGE)
    # The tokens of a group are of different requests: it reads what any of them needs.
    return needed.view(-1, Q_BLOCK, needed.shape[1]).any(1)


def mask_mod_of(mask: LayerMask, step: StepTensors) -> MaskMod:
    """The layer's mask in terms of slots of the cache."""
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


# endregion
