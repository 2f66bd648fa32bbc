"""Sorts instead of asking, and still does it in each layer's forward.

fails: test_a_forward_queues_nothing
fails: test_layers_with_the_same_mask_share_their_lists
says: What a layer's forward queues is queued again for each layer
"""

from collections import namedtuple

import torch

PAGE = 16
Q_BLOCK = 16
PageLists = namedtuple("PageLists", "kv_num_blocks kv_indices mask_mod")


def needed_pages(mask, step, num_tokens):
    position = step.position[:num_tokens, None]
    logical_page = step.physical_to_logical[step.request[:num_tokens]]
    needed = (logical_page >= 0) & (logical_page <= position // PAGE)
    if mask.sliding_window is not None:
        first = position - mask.sliding_window + 1
        needed = needed & (logical_page >= first // PAGE)
    return needed.view(-1, Q_BLOCK, needed.shape[1]).any(1)


def listed(needed):
    num_pages = needed.shape[1]
    page = torch.arange(num_pages, device=needed.device)
    pages = torch.where(needed, page, num_pages).sort(1).values
    return pages.masked_fill(pages == num_pages, -1)


def mask_mod_of(mask, step):
    window, also = mask
    requests, positions, physical_to_logical = step

    def mask_mod(b, h, q, slot):
        position = positions[q]
        logical_page = physical_to_logical[requests[q], slot // PAGE]
        key = logical_page * PAGE + slot % PAGE
        sees = (logical_page >= 0) & (key <= position)
        if window is not None:
            sees = sees & (key > position - window)
        if also is not None:
            sees = sees & also(b, h, position.clamp(min=0), key.clamp(min=0))
        return sees

    return mask_mod


class LayerMasks:
    def __init__(self, masks, step):
        self.masks, self.step = masks, step

    def build(self, num_tokens):
        self.num_tokens = num_tokens

    def lists_of(self, layer):
        mask = self.masks[layer]
        needed = needed_pages(mask, self.step, self.num_tokens)
        kv_indices = torch.nn.functional.pad(listed(needed), (0, 1), value=-1)
        kv_num_blocks = needed.sum(1, dtype=torch.int32)
        return PageLists(kv_num_blocks, kv_indices.int(), mask_mod_of(mask, self.step))
