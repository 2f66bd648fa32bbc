"""Makes a tensor of the window, since it is compared with tensors.

fails: test_nobody_waits_and_nothing_is_sent
fails: test_a_replay_sees_what_its_step_allows
may fail: test_flex_attention_takes_them
says: Use the number itself
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
            first = position + 1 - torch.tensor(window, device=position.device)
            sees = sees & (key >= first)
        if also is not None:
            sees = sees & also(b, h, position.clamp(min=0), key.clamp(min=0))
        return sees

    return mask_mod


def empty_lists(mask, step):
    device = step.position.device
    most_groups, num_pages = len(step.position) // Q_BLOCK, step.physical_to_logical.shape[1]
    return PageLists(
        torch.zeros(most_groups, dtype=torch.int32, device=device),
        torch.full((most_groups, num_pages + 1), -1, dtype=torch.int32, device=device),
        mask_mod_of(mask, step),
    )


class LayerMasks:
    def __init__(self, masks, step):
        self.masks, self.step = masks, step
        self.persistent = {mask: empty_lists(mask, step) for mask in masks.values()}

    def build(self, num_tokens):
        self.num_groups = num_tokens // Q_BLOCK
        for mask, lists in self.persistent.items():
            needed = needed_pages(mask, self.step, num_tokens)
            lists.kv_indices[: self.num_groups, :-1].copy_(listed(needed))
            lists.kv_num_blocks[: self.num_groups].copy_(needed.sum(1))

    def lists_of(self, layer):
        kv_num_blocks, kv_indices, mask_mod = self.persistent[self.masks[layer]]
        return PageLists(kv_num_blocks[: self.num_groups], kv_indices[: self.num_groups], mask_mod)
