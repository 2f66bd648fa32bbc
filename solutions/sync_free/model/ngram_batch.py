"""What the host knows of the batch that the n-gram speculator looks through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class NgramBatch:
    """One step's requests: row i of the tables belongs to `req_ids[i]`."""

    req_ids: Sequence[str]
    token_ids_cpu: np.ndarray  # [max_reqs, max_len] int32; a row's first num_tokens_cpu ids count
    num_tokens_cpu: np.ndarray  # [n] int32, for n requests

    def rows_by_req_id(self) -> dict[str, int]:
        """ValueError for requests or lengths that the tables can't hold, and for a twin."""
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
