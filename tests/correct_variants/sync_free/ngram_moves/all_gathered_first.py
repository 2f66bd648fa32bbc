"""Gathers from all tables before it writes to any, by pairs in a tensor of [moves, 2]."""

from debubble.accelerator import current


def move_rows(tables, moves):
    if len(moves) == 0:
        return
    check_moves(moves, len(tables[0]))
    pairs = torch.tensor([*moves], dtype=torch.int64, pin_memory=current().pin_memory)
    sent = pairs.to(tables[0].device, non_blocking=True)
    sources, targets = sent[:, 0], sent[:, 1]
    read = [table[sources] for table in tables]
    for table, rows in zip(tables, read, strict=False):
        table.index_put_((targets,), rows)
