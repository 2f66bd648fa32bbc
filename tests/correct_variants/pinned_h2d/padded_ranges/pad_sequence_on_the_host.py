"""Lets torch pad on the host, and copies from pinned memory into a tensor of the device."""

from torch.nn.utils.rnn import pad_sequence


def compute_mm_prefix_range_tensor(ranges, num_seqs, device):
    rows = ranges_by_row(ranges, num_seqs)
    if rows is None:
        return None
    spans = [torch.tensor(row, dtype=torch.int32) for row in rows]
    padded = pad_sequence(spans, batch_first=True)
    staging = torch.empty_like(padded, pin_memory=current().pin_memory).copy_(padded)
    return torch.empty_like(padded, device=device).copy_(staging, non_blocking=True)
