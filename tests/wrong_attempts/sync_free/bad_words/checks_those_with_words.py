"""Drops the rows without words before it checks, so such a row may be one that the logits lack.

fails: test_a_row_that_the_logits_lack_is_refused
says: ValueError for apply_bad_words(zeros(2, 6), {0: [[1]], 9: []}
"""

_all_checked = apply_bad_words


def apply_bad_words(
    logits: torch.Tensor,
    bad_words_token_ids: BadWordsTokenIds,
    past_tokens_ids: Sequence[Sequence[int]],
) -> None:
    words = {row: sequences for row, sequences in bad_words_token_ids.items() if sequences}
    _all_checked(logits, words, past_tokens_ids)
