"""Page lists that each layer makes for itself, in its forward."""

from __future__ import annotations

import torch

from ..layer_masks import LayerMask, PageLists, StepTensors, mask_mod_of, needed_pages


class LayerMasks:
    """The page lists of all layers. Each layer's are made when its forward calls `lists_of`."""

    def __init__(self, masks: dict[str, LayerMask], step: StepTensors) -> None:
        self.masks, self.step = masks, step

    def build(self, num_tokens: int) -> None:
        """Stores the step's number of tokens, and makes no lists."""
        self.num_tokens = num_tokens

    def lists_of(self, layer: str) -> PageLists:
        """Returns new page lists for the layer's attention in this step."""
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
