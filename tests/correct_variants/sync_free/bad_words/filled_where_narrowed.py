"""Fills a narrowed view for each row and id, each only once."""


def apply_bad_words(logits, bad_words_token_ids, past_tokens_ids):
    check_all_bad_words(bad_words_token_ids, *logits.shape)
    check_past_tokens(past_tokens_ids, len(logits))
    matches = set()
    for row, sequences in bad_words_token_ids.items():
        past = tuple(past_tokens_ids[row])
        for *prefix, last in sequences:
            if past[len(past) - len(prefix) :] == tuple(prefix):
                matches.add((row, last))
    for row, last in sorted(matches):
        logits[row].narrow(0, last, 1).fill_(-torch.inf)
