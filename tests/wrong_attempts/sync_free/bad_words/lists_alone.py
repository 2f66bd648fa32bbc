"""Compares the end of the past with the word as lists, so that a tuple never matches.

fails: test_steps_one_after_another
says: Expected row 0 of what apply_bad_words of tuples after a list returns to be a tensor of
"""

import torch

from debubble.accelerator import current
from solutions.sync_free.checks.requests import check_bad_words, check_past_tokens


def apply_bad_words(logits, bad_words_token_ids, past_tokens_ids):
    check_bad_words(bad_words_token_ids, *logits.shape)
    check_past_tokens(past_tokens_ids, len(logits))
    rows, ids = [], []
    for row, words in bad_words_token_ids.items():
        for word in words:
            past, before = past_tokens_ids[row], word[:-1]
            if len(before) == 0 or (len(past) and past[-len(before) :] == before):
                rows.append(row)
                ids.append(word[-1])
    if rows:
        places = torch.tensor([rows, ids], pin_memory=current().pin_memory)
        rows, ids = places.to(logits.device, non_blocking=True).unbind()
        value = torch.full((), float("-inf"), dtype=logits.dtype, device=logits.device)
        logits.index_put_((rows, ids), value)
