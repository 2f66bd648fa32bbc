"""Joins the sampled column and the upload, transposed back from counts and ids by column."""

from debubble.accelerator import current


def chosen_tokens(requested, sampled, vocab_size):
    if not requested:
        return None
    check_all_requested(requested, len(sampled), vocab_size)
    asked = [list(requested.get(row, ())) for row in range(len(sampled))]
    most = max(map(len, asked))
    rows = [[1 + len(ids), *ids, *[0] * (most - len(ids))] for ids in asked]
    staged = torch.tensor(rows, dtype=torch.int32, pin_memory=current().pin_memory)
    counts, ids = staged.to(sampled.device, non_blocking=True).split([1, most], 1)
    joined = torch.cat([sampled[:, None].to(torch.int32), ids], 1)
    return ChosenTokens(joined, counts.flatten().contiguous())
