"""The page lists of all layers, made once a step before the first layer, so that a forward only
reads them.

Only a kata runs this. The system's runner has a builder for each mask, whose lists are made by the
Triton kernels of tables/; here PyTorch's operators make them.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from ..mask import MaskMod

PAGE = 16
"""Number of slots in one page of the KV cache."""
Q_BLOCK = 16
"""Number of consecutive tokens of a step that share one row of the page lists: a group."""


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


class LayerMasks:
    """The page lists of all layers, many of which have equal masks (vLLM #36298).

    A runner calls `build` in each step, before the model. Each layer's forward calls `lists_of`.
    The model is captured in a graph, and `build` need not be.
    """

    def __init__(self, masks: dict[str, LayerMask], step: StepTensors) -> None:
        """Sets up the layers. `masks` has the mask of each layer, by the layer's name."""
        self.masks, self.step = masks, step
        most_groups, num_pages = len(step.position) // Q_BLOCK, step.physical_to_logical.shape[1]
        self.persistent = {
            mask: PageLists(
                torch.zeros(most_groups, dtype=torch.int32, device=step.position.device),
                torch.full(
                    (most_groups, num_pages + 1), -1, dtype=torch.int32, device=step.position.device
                ),
                mask_mod_of(mask, step),
            )
            for mask in masks.values()
        }
        self.num_groups = 0

    def build(self, num_tokens: int) -> None:
        """Lists the pages of a step of `num_tokens` tokens, a multiple of Q_BLOCK."""
        self.num_groups = num_tokens // Q_BLOCK
        for mask, lists in self.persistent.items():
            needed = needed_pages(mask, self.step, num_tokens)
            num_pages = needed.shape[1]
            page = torch.arange(num_pages, device=needed.device)
            # Pages that aren't needed sort to the end.
            pages = torch.where(needed, page, num_pages).sort(1).values
            pages = pages.masked_fill(pages == num_pages, -1)
            lists.kv_indices[: self.num_groups, :-1].copy_(pages)
            lists.kv_num_blocks[: self.num_groups].copy_(needed.sum(1))

    def lists_of(self, layer: str) -> PageLists:
        """Returns the page lists of the layer's attention in the step of the last `build`."""
        kv_num_blocks, kv_indices, mask_mod = self.persistent[self.masks[layer]]
        return PageLists(kv_num_blocks[: self.num_groups], kv_indices[: self.num_groups], mask_mod)


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
