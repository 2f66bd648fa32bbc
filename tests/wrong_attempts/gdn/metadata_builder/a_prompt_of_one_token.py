"""Takes every request of one token for a decode.

fails: test_prefills_are_found_and_counted_from_their_own_first_token
says: a prompt of one token has no state to go on from
"""

from collections import namedtuple

import torch
from torch.nn.functional import pad

from debubble.accelerator import current

NAMES = "num_decodes num_prefills num_prefill_tokens query_start_loc has_initial_state"
Metadata = namedtuple("Metadata", NAMES + " chunk_indices chunk_offsets", defaults=[None] * 4)


def sent(parts, device):
    flat = torch.cat([part.reshape(-1).long() for part in parts])
    staged = torch.empty(len(flat), dtype=torch.int64, pin_memory=current().pin_memory)
    on_device = staged.copy_(flat).to(device, non_blocking=True)
    return on_device.split([part.numel() for part in parts])


def tables_of(lengths):
    chunks = (lengths + 63) // 64
    offsets = pad(chunks.cumsum(0), (1, 0))
    sequence = torch.repeat_interleave(chunks)
    return torch.stack([sequence, torch.arange(len(sequence)) - offsets[sequence]]), offsets


def build_prefill_metadata(common, num_draft_tokens_cpu):
    device = common.query_start_loc.device
    query_lens = common.query_start_loc_cpu.diff()
    computed = common.seq_lens_cpu - query_lens
    is_speculative = num_draft_tokens_cpu >= 0
    is_decode = query_lens == 1
    num_decodes = 0 if is_speculative.any() else int(is_decode.long().cumprod(0).sum())
    others = (~is_speculative).nonzero().flatten()[num_decodes:]
    lengths, states = query_lens[others], computed[others] > 0
    if not lengths.sum():
        return Metadata(num_decodes, 0, 0)
    indices, offsets = tables_of(lengths)
    parts = pad(lengths.cumsum(0), (1, 0)), states, indices, offsets
    starts, states, indices, offsets = sent(parts, device)
    counts = num_decodes, len(lengths), int(lengths.sum())
    tables = indices.view(2, -1).t().int().contiguous(), offsets
    return Metadata(*counts, starts.int(), states.bool(), *tables)
