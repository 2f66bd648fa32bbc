"""Sends the matches, and marks them on the device in a mask of all logits.

fails: test_few_matches_do_not_write_all_logits
says: Write only the few
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
    mask = torch.zeros(logits.shape, dtype=torch.bool, device=logits.device)
    mask.index_put_((rows, ids), torch.ones((), dtype=torch.bool, device=logits.device))
    logits.masked_fill_(mask, float("-inf"))
