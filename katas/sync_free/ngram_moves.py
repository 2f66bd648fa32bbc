"""Rows that change places (chapter 02, medium, 20 minutes).

An n-gram speculator keeps each request's tokens in one row of a device tensor, and their number in
another tensor. As requests come and go, the remaining requests change rows, and `moves` says which
row goes where. The function below works. But it uploads the source rows, waits, uploads the target
rows, and waits again.

Upload all row numbers at once, pinned if `current().pin_memory` is true, and without a wait. Two
requests may swap places: read every row before you overwrite it. A row that no move names is
neither read nor written, and (3, 3) leaves row 3 as it is. 16 rows take as many launches as 2, and
an empty `moves` takes none. Keep refusing the inputs that the function refuses.

You need to know `index_select` and `index_copy_`, and pinned uploads.

Edit this file, then run

    .venv/bin/pytest katas/sync_free/test_ngram_moves.py

Stuck?         .venv/bin/debubble hint ngram_moves
Start afresh?  .venv/bin/debubble reset ngram_moves
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from katas.sync_free.given import check_moves


# Yours to edit, from here on.
def move_rows(tables: Sequence[torch.Tensor], moves: Sequence[tuple[int, int]]) -> None:
    """Copies each table's row `source` to row `target`, for every (source, target) of `moves`.

    The rows move in place, as if at the same moment: [(0, 1), (1, 0)] is a swap. Rows that are no
    target stay as they are. The tables are on the device and have the same number of rows. No row
    is the target of two moves (vLLM #41429).
    """
    if not moves:
        return
    check_moves(moves, len(tables[0]))
    sources, targets = zip(*moves, strict=True)
    device = tables[0].device
    source_rows = torch.tensor(sources, device=device)
    target_rows = torch.tensor(targets, device=device)
    for table in tables:
        table[target_rows] = table[source_rows].clone()
