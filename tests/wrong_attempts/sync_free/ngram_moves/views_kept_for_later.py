"""Reads all rows before it writes one, but what it keeps of them are views.

fails: test_rows_may_change_places
fails: test_more_moves_are_no_more_launches
says: Gather all rows that move into memory of their own first
"""


def move_rows(tables, moves):
    for table in tables:
        rows = [table[source] for source, _ in moves]
        for (_, target), row in zip(moves, rows, strict=True):
            table[target].copy_(row)
