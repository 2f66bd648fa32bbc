"""Multiplies a mask by minus infinity: where the mask is 0 that is NaN.

fails: test_a_word_forbids_its_last_id_behind_the_others
fails: test_each_row_has_words_of_its_own
fails: test_logits_may_be_a_part_of_a_larger_tensor
fails: test_lists_that_changed_have_other_matches
fails: test_logits_of_half_precision_are_logits_too
fails: test_nobody_waits
fails: test_all_matches_share_one_upload_or_need_none
fails: test_what_travels_is_the_matches_alone
fails: test_an_id_may_be_a_large_number
fails: test_few_matches_do_not_write_all_logits
fails: test_calls_that_follow_at_once_do_not_disturb_each_other
says: zero times infinity are NaN
"""

from debubble.accelerator import current


def apply_bad_words(logits, bad_words_token_ids, past_tokens_ids):
    check_all_bad_words(bad_words_token_ids, *logits.shape)
    check_past_tokens(past_tokens_ids, len(logits))
    mask = torch.zeros(logits.shape, pin_memory=current().pin_memory)
    for row, sequences in bad_words_token_ids.items():
        for *prefix, last_id in sequences:
            past = past_tokens_ids[row]
            if list(past[len(past) - len(prefix) :]) == prefix:
                mask[row, last_id] = 1
    if mask.any():
        logits += mask.to(logits.device, non_blocking=True) * float("-inf")
