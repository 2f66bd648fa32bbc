"""The batch that the n-gram speculator searches, as the host knows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np

from ..checks.rows import check_moves

Moves = list[tuple[int, int]]
"""Moves of requests in the tables, as (source, target) pairs: the request in row `source` moves to
row `target`."""


@dataclass(frozen=True, slots=True)
class NgramBatch:
    """The requests of one step on the host, with their tokens: row i of the tables belongs to
    `req_ids[i]`."""

    req_ids: Sequence[str]
    token_ids_cpu: np.ndarray  # [max_reqs, max_len] int32; a row's first num_tokens_cpu ids count
    num_tokens_cpu: np.ndarray  # [n] int32, for n requests

    def rows_by_req_id(self) -> dict[str, int]:
        """Returns the row of each request in this step, by its id. Raises ValueError for requests
        or lengths that the tables can't hold, and for a request in two rows."""
        max_reqs, max_len = self.token_ids_cpu.shape
        num_reqs = len(self.req_ids)
        if num_reqs > max_reqs:
            raise ValueError(f"{num_reqs} requests: the tables have {max_reqs} rows")
        if self.token_ids_cpu.dtype != np.int32:
            raise ValueError(f"token ids of {self.token_ids_cpu.dtype}: the tables hold int32")
        if self.num_tokens_cpu.shape != (num_reqs,):
            raise ValueError(
                f"lengths of shape {list(self.num_tokens_cpu.shape)} for {num_reqs} requests: "
                "give each request one"
            )
        outside = (self.num_tokens_cpu < 0) | (self.num_tokens_cpu > max_len)
        if outside.any():
            row = int(outside.argmax())
            raise ValueError(
                f"request {self.req_ids[row]!r} has {self.num_tokens_cpu[row]} tokens: "
                f"a row holds 0 to {max_len}"
            )
        rows = dict(zip(self.req_ids, range(num_reqs), strict=True))
        if len(rows) < num_reqs:
            twin = next(req_id for row, req_id in enumerate(self.req_ids) if rows[req_id] != row)
            raise ValueError(f"request {twin!r} has two rows: it can have one")
        return rows

    def changes(
        self, prev_req_id_to_row: Mapping[str, int] | None, new_req_ids: AbstractSet[str]
    ) -> tuple[Moves, list[int]]:
        """Returns which requests' rows move since the last step, and the rows that are written from
        the host: all rows in the first step.

        Raises ValueError for a request that is neither in the last map nor new, and for a move from
        a row that doesn't exist.
        """
        rows = self.rows_by_req_id()
        if prev_req_id_to_row is None:
            return [], list(rows.values())
        moves: Moves = []
        for req_id, row in rows.items():
            if req_id in new_req_ids:
                continue
            if req_id not in prev_req_id_to_row:
                raise ValueError(
                    f"request {req_id!r} was not there in the last step: "
                    "name it among the new or resumed ones"
                )
            if prev_req_id_to_row[req_id] != row:
                moves.append((prev_req_id_to_row[req_id], row))
        check_moves(moves, len(self.token_ids_cpu))
        return moves, [row for req_id, row in rows.items() if req_id in new_req_ids]

    def arrays(self, moves: Moves, written_rows: Sequence[int]) -> dict[str, np.ndarray]:
        """Returns the arrays that an update needs on the device.

        source_rows, target_rows   int64: the moves
        written_rows               int64: the rows written from the host
        ids                        int32: the ids of the written rows, one row after the other
        starts                     int64: where in `ids` each written row begins
        lengths                    int32: the lengths of all requests
        """
        pairs = np.array(moves, np.int64).reshape(-1, 2)
        written = np.array(written_rows, np.int64)
        lengths = self.num_tokens_cpu[written]
        ids = [self.token_ids_cpu[row, : self.num_tokens_cpu[row]] for row in written_rows]
        return {
            "source_rows": pairs[:, 0],
            "target_rows": pairs[:, 1],
            "written_rows": written,
            "starts": lengths.cumsum(dtype=np.int64) - lengths,
            "ids": np.concatenate([np.empty(0, np.int32), *ids]),
            "lengths": self.num_tokens_cpu.astype(np.int32),
        }
