"""Copies rows of zeros that are expanded from one, by index_copy_."""

from debubble.accelerator import current


def clear_rows(rows, tables):
    check_rows(rows, min(len(table) for table in tables))
    rows = torch.tensor([*rows], dtype=torch.int64, pin_memory=current().pin_memory)
    rows = rows.to(tables[0].device, non_blocking=True)
    for table in tables:
        zeros = table.new_zeros(()).expand(len(rows), *table.shape[1:])
        table.index_copy_(0, rows, zeros)
