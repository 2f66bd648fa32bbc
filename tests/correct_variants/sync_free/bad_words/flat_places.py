"""Sends flat places in one pinned tensor, and scatters a number that is a kernel's argument."""

from debubble.accelerator import current


def apply_bad_words(logits, bad_words_token_ids, past_tokens_ids):
    check_all_bad_words(bad_words_token_ids, *logits.shape)
    check_past_tokens(past_tokens_ids, len(logits))
    found = [
        (row, words[-1])
        for row, sequences in bad_words_token_ids.items()
        for words in sequences
        if len(words) == 1 or list(past_tokens_ids[row])[-len(words) + 1 :] == list(words[:-1])
    ]
    if not found:
        return
    staged = torch.tensor(found, dtype=torch.int64, pin_memory=current().pin_memory)
    rows, ids = staged.to(logits.device, non_blocking=True).unbind(1)
    logits.index_put_((rows, ids), logits.new_full((), float("-inf")))
