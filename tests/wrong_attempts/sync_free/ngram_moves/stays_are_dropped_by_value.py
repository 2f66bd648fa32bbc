"""Refuses a row that stays where it is, and one that two rows come from.

fails: test_rows_move_in_every_table
fails: test_steps_one_after_another
says: It came from
"""


def move_rows(tables, moves, own=move_rows):
    if any(source == target for source, target in moves):
        raise ValueError("a row that stays is no move")
    own(tables, moves)
