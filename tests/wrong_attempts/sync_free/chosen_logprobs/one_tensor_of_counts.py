"""Keeps one tensor of counts on the device for each number of rows.

fails: test_results_stay_as_they_are
says: to have memory of its own
"""

COUNTS = {}


def chosen_tokens(requested, sampled, vocab_size, own=chosen_tokens):
    chosen = own(requested, sampled, vocab_size)
    if chosen is None:
        return None
    kept = COUNTS.setdefault(len(sampled), torch.empty_like(chosen.counts))
    return ChosenTokens(chosen.ids, kept.copy_(chosen.counts))
