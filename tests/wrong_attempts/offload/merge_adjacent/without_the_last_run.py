"""Writes a run down when the next one begins, and behind the last one none begins.

fails: test_a_run_is_one_piece
fails: test_others_stay_as_they_are
fails: test_pieces_of_no_bytes_are_left_out
fails: test_the_same_bytes_arrive
fails: test_the_device_makes_one_copy_of_a_run
says: or where the list ends
"""

import numpy as np


def merge_adjacent(src, dst, sizes):
    pieces, run = [], None
    for piece in zip(src.tolist(), dst.tolist(), sizes.tolist(), strict=True):
        source, target, nbytes = piece
        if nbytes == 0:
            continue
        if run and (source, target) == (run[0] + run[2], run[1] + run[2]):
            run = (run[0], run[1], run[2] + nbytes)
            continue
        if run:
            pieces.append(run)
        run = piece
    return tuple(np.array(pieces, dtype=np.int64).reshape(-1, 3).T)
