"""Sends all parts as one int64 tensor, and lets the device convert them."""

import numpy as np

from debubble.accelerator import current


def build_prefill_metadata(common, num_draft_tokens_cpu):
    lengths = np.diff(np.asarray(common.query_start_loc_cpu)).astype(np.int64)
    computed = np.asarray(common.seq_lens_cpu) - lengths
    speculative = np.asarray(num_draft_tokens_cpu) >= 0
    decodes = 0
    if not speculative.any():
        decodes = int(np.argmin(np.append((lengths == 1) & (computed > 0), False)))
    own, computed = lengths[~speculative][decodes:], computed[~speculative][decodes:]
    if not own.sum():
        return PrefillMetadata(decodes, 0, 0)
    chunks = (own + 63) // 64
    starts, offsets = np.append(0, own.cumsum()), np.append(0, chunks.cumsum())
    sequence = np.repeat(np.arange(len(own)), chunks)
    rows = np.stack([sequence, np.arange(len(sequence)) - offsets[sequence]], 1)
    parts = [starts, computed > 0, rows.reshape(-1), offsets]
    staged = torch.tensor(np.concatenate(parts).astype(np.int64))
    pinned = torch.empty_like(staged, pin_memory=current().pin_memory).copy_(staged)
    sent = pinned.to(common.query_start_loc.device, non_blocking=True)
    starts, has_state, rows, offsets = sent.split([part.size for part in parts])
    return PrefillMetadata(
        decodes,
        len(own),
        int(own.sum()),
        starts.int(),
        has_state.bool(),
        rows.view(-1, 2).int(),
        offsets,
    )
