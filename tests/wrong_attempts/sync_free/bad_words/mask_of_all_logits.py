"""Marks the matches in a pinned mask of all logits, which is one upload, and a large one.

fails: test_what_travels_is_the_matches_alone
says: uploads 16384 bytes
says: A match is a row and an id
"""

import torch

from debubble.accelerator import current


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
    places = matches(bad_words_token_ids, past_tokens_ids)
    if places:
        mask = torch.zeros(logits.shape, dtype=torch.bool, pin_memory=current().pin_memory)
        for row, token_id in places:
            mask[row, token_id] = True
        logits.masked_fill_(mask.to(logits.device, non_blocking=True), float("-inf"))
