"""Gives `copy_batch` lists of addresses, which it does not take.

fails: test_chapter_05_a_prefix_is_loaded_by_one_batch
says: int64
"""


def copy_pieces(pieces):
    current().copy_batch(*map(list, zip(*pieces, strict=True)))
