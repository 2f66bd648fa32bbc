"""Leaves out a match that it has already, by a search through all of them.

fails: test_the_work_of_the_host_grows_with_the_step
says: Expected at most 32 times the instructions for 32 times the items. Your code
"""

import torch

from debubble.accelerator import current
from solutions.sync_free.checks.requests import check_bad_words, check_past_tokens


def apply_bad_words(logits, bad_words_token_ids, past_tokens_ids):
    check_bad_words(bad_words_token_ids, *logits.shape)
    check_past_tokens(past_tokens_ids, len(logits))
    matches = []
    for row, words in bad_words_token_ids.items():
        for word in words:
            past, before = list(past_tokens_ids[row]), list(word[:-1])
            if past[len(past) - len(before) :] == before:
                for match in matches:
                    if match == (row, word[-1]):
                        break
                else:
                    matches.append((row, int(word[-1])))
    if matches:
        places = torch.tensor(matches, pin_memory=current().pin_memory)
        rows, ids = places.to(logits.device, non_blocking=True).unbind(1)
        value = torch.full((), float("-inf"), dtype=logits.dtype, device=logits.device)
        logits.index_put_((rows, ids), value)
