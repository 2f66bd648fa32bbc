"""Before the first layer (chapter 04, hard, 40 minutes).

Attention reads whole pages of the KV cache, so it gets a list of pages for each group of 16 tokens.
Layers differ in what they see: some have a sliding window, some a mask of their own, and many share
a mask. The class below gets all that right. But it makes the lists when a layer asks for them, in
the model's forward: again for each layer, and `nonzero` waits for the device. No graph can capture
that.

Make the lists in `build`, which is called in each step before the model: once for all layers with
the same mask, and without a wait. `lists_of` must only return lists that are there already. The
model is captured and `build` is not, so a replay reads a step's lists at the addresses of the
captured lists.

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
    """The page lists of all layers, many of which have equal masks (vLLM #36298).

    A runner calls `build` in each step, before the model. Each layer's forward calls `lists_of`.
    The model is captured in a graph, and `build` need not be.
    """

    def __init__(self, masks: dict[str, LayerMask], step: StepTensors) -> None:
        """Sets up the layers. `masks` has the mask of each layer, by the layer's name."""
        self.masks, self.step = masks, step

    def build(self, num_tokens: int) -> None:
        """Lists the pages of a step of `num_tokens` tokens, a multiple of Q_BLOCK."""
        self.num_tokens = num_tokens

    def lists_of(self, layer: str) -> PageLists:
        """Returns the page lists of the layer's attention in this step."""
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
    """The keys of a request that a layer's query sees. No key after the query itself is visible."""

    sliding_window: int | None = None
    """The number of keys in the window, which ends with the query's own key; None for all keys."""
    logical_mask_mod: MaskMod | None = None
    """A further condition on visible keys, on positions within one request; None for none."""


class StepTensors(NamedTuple):
    """Tensors that all steps share, on the device. Each step writes to them before `build`."""

    request: torch.Tensor
    """[most tokens] int64: the request of each token."""
    position: torch.Tensor
    """[most tokens] int64: the position of each token in its request; -1 for padding."""
    physical_to_logical: torch.Tensor
    """[most requests, num_pages] int64: the index of each page of the cache among the request's
    pages; -1 for pages of other requests."""


class PageLists(NamedTuple):
    """The arguments of attention: the pages that each group reads, and which of their keys it
    sees."""

    kv_num_blocks: torch.Tensor
    """[groups] int32: how many pages each group reads."""
    kv_indices: torch.Tensor
    """[groups, num_pages + 1] int32: the pages of each group, ascending, then -1."""
    mask_mod: MaskMod
    """Returns True if a token of the step (query) sees a slot of the cache (key)."""


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


# endregion
