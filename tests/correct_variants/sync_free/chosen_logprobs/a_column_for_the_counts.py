"""Sends one pinned table with the counts in its last column, and makes both parts contiguous."""

from debubble.accelerator import current


def chosen_tokens(requested, sampled, vocab_size):
    if not requested:
        return None
    check_all_requested(requested, len(sampled), vocab_size)
    width = 1 + max(map(len, requested.values()))
    staged = torch.zeros(
        (len(sampled), width + 1), dtype=torch.int32, pin_memory=current().pin_memory
    )
    table = staged.numpy()
    table[:, -1] = 1
    for row, ids in requested.items():
        table[row, 1 : 1 + len(ids)] = ids
        table[row, -1] = 1 + len(ids)
    sent = staged.to(sampled.device, non_blocking=True)
    sent[:, 0] = sampled
    return ChosenTokens(sent[:, :width].contiguous(), sent[:, width].contiguous())
