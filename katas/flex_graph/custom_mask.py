"""Before the first layer (chapter 04, hard, 40 minutes).

Attention reads whole pages of the KV cache, so it gets a list of pages for each group of 16 tokens.
Layers differ in what they see: some have a sliding window, some a mask of their own, and many share
a mask. The class below gets all that right. But it makes the lists when a layer asks for them, in
the model's forward: again for each layer, and `nonzero` waits for the device. No graph can capture
that.

Make the lists in `build`, which is called in each step before the model: once for all layers with
the same mask, and without a wait. `lists_of` must only return lists that are there already. The
model is captured and `build` is not, so a replay reads a step's lists at the addresses of the
captured lists. Two masks are the same if they are equal, and layers with the same mask may share
one result.

You need to know FlexAttention's `mask_mod`, and what a block mask is made of.

Edit this file, then run

    .venv/bin/pytest katas/flex_graph/test_custom_mask.py

Stuck?         .venv/bin/debubble hint custom_mask
Start afresh?  .venv/bin/debubble reset custom_mask
"""

from __future__ import annotations

import torch

from katas.flex_graph.given import LayerMask, PageLists, StepTensors, mask_mod_of, needed_pages


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
        """Returns the page lists of the layer's attention in the step of the last `build`."""
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
