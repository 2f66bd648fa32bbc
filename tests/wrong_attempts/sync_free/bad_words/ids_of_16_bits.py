"""Sends rows and ids as int16, to halve the bytes.

fails: test_an_id_may_be_a_large_number
says: 16
"""

import numpy as np

from debubble.accelerator import current


def apply_bad_words(logits, bad_words_token_ids, past_tokens_ids):
    check_all_bad_words(bad_words_token_ids, *logits.shape)
    check_past_tokens(past_tokens_ids, len(logits))
    places = []
    for row, sequences in bad_words_token_ids.items():
        for *prefix, last_id in sequences:
            past = past_tokens_ids[row]
            if list(past[len(past) - len(prefix) :]) == prefix:
                places.append((row, last_id))
    if not places:
        return
    staging = torch.empty(len(places), 2, dtype=torch.int16, pin_memory=current().pin_memory)
    staging.copy_(torch.from_numpy(np.array(places).astype(np.int16)))
    rows, ids = staging.to(logits.device, non_blocking=True).long().remainder_(1 << 16).unbind(1)
    minus = torch.full((), float("-inf"), dtype=logits.dtype, device=logits.device)
    logits.index_put_((rows, ids), minus)
