"""Clones each row and writes each row: right, without an upload, and two copies a row.

fails: test_more_moves_are_no_more_launches
says: takes 8 for 2 rows, and 64 for 16
says: A launch takes the host a few microseconds
"""


def move_rows(tables, moves):
    for table in tables:
        rows = [table[source].clone() for source, _ in moves]
        for (_, target), row in zip(moves, rows, strict=True):
            table[target].copy_(row)
