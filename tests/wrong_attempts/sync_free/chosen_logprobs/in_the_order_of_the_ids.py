"""Sorts the ids of each row.

fails: test_steps_one_after_another
says: Expected item 0 of what chosen_tokens({2: [9, 4, 999, 4], 0: [5]}, [1, 2, 3] as
"""


def chosen_tokens(requested, sampled, vocab_size, own=chosen_tokens):
    return own({row: sorted(ids) for row, ids in requested.items()}, sampled, vocab_size)
