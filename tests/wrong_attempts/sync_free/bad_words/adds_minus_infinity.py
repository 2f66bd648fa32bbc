"""Adds minus infinity, as to a mask of attention: to infinity that is NaN.

fails: test_logits_of_half_precision_are_logits_too
says: nan
says: Logits may be infinite, so write minus infinity over them instead.
"""

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
    staging = torch.tensor(places, dtype=torch.int64, pin_memory=current().pin_memory)
    rows, ids = staging.to(logits.device, non_blocking=True).unbind(1)
    minus = torch.full((), float("-inf"), dtype=logits.dtype, device=logits.device)
    logits.index_put_((rows, ids), minus, accumulate=True)
