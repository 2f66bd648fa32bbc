"""Leaves out moves of a row to itself, and cuts one flat tensor of row numbers in two."""

from debubble.accelerator import current


def move_rows(tables, moves):
    if moves:
        check_moves(moves, len(tables[0]))
    real = [move for move in moves if move[0] != move[1]]
    if not real:
        return
    numbers = [source for source, _ in real] + [target for _, target in real]
    staged = torch.empty(2 * len(real), dtype=torch.int64, pin_memory=current().pin_memory)
    staged.copy_(torch.tensor(numbers))
    sources, targets = staged.to(tables[0].device, non_blocking=True).chunk(2)
    for table in tables:
        table[targets] = torch.index_select(table, 0, sources)
