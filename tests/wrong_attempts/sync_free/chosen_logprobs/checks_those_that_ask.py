"""Drops the rows that ask for nothing before it checks, so such a row may be outside of the batch.

fails: test_rows_outside_of_the_batch_are_refused
says: ValueError for chosen_tokens({0: [3], 9: []}
"""

_all_checked = chosen_tokens


def chosen_tokens(
    requested: Mapping[int, Sequence[int]], sampled: torch.Tensor, vocab_size: int
) -> ChosenTokens | None:
    asked = {row: token_ids for row, token_ids in requested.items() if len(token_ids)}
    if requested and not asked:
        asked = {0: ()}
    return _all_checked(asked, sampled, vocab_size)
