"""Reads each logit, to leave alone what is forbidden already.

fails: test_nobody_waits
says: 16 host syncs
says: .item()
"""


def check(words, vocab_size):
    for sequences in words.values():
        for token_id in [i for sequence in sequences for i in sequence]:
            if not 0 <= token_id < vocab_size:
                raise ValueError(f"token id {token_id}: there are {vocab_size}")


def matches(words, pasts):
    return [
        (row, word[-1])
        for row, of_row in words.items()
        for word in of_row
        if list(pasts[row])[len(pasts[row]) - len(word) + 1 :] == list(word[:-1])
    ]


def apply_bad_words(logits, bad_words_token_ids, past_tokens_ids):
    check(bad_words_token_ids, logits.shape[1])
    for row, token_id in matches(bad_words_token_ids, past_tokens_ids):
        if logits[row, token_id].item() != float("-inf"):
            logits[row, token_id].fill_(float("-inf"))
