"""Sends rows and ids pinned, and then a Python number through them.

fails: test_nobody_waits
fails: test_all_matches_share_one_upload_or_need_none
says: so is a number that is written through indices on the device
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
        pinned = torch.tensor(list(zip(*places, strict=True)), pin_memory=current().pin_memory)
        rows, ids = pinned.to(logits.device, non_blocking=True)
        logits[rows, ids] = float("-inf")
