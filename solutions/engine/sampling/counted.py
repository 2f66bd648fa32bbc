"""Requests whose tokens the device stores and counts. The host uploads their tokens once; then the
device adds each sampled token itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from solutions.sync_free.model.ngram_batch import NgramBatch

from ..requests.request import Request
from ..requests.step_batch import StepBatch
from .choose import CountTables

if TYPE_CHECKING:
    from ..run.sides import StepSide


class CountedRequests:
    """The requests that the device stores, by slot: those with penalties, or all of them if n-grams
    are looked up. A request that is new in its slot is uploaded and counted from the start. A step
    without new requests uploads nothing."""

    def __init__(self, side: StepSide, tables: CountTables, keeps_all: bool = False) -> None:
        self.side, self.keeps_all = side, keeps_all
        # The last row belongs to no request.
        self.tables = CountTables(*(table[:-1] for table in tables))
        self.reset()

    def reset(self) -> None:
        """Forgets what the device has, so that all requests are uploaded again. Call it when the
        device's counts may be wrong."""
        self._in_slots: dict[int, Request] = {}
        self._rows: Mapping[str, int] | None = None

    def update(self, batch: StepBatch) -> None:
        """Uploads the requests that the device doesn't have yet. Call it before each step."""
        rows = batch.rows if self.keeps_all else [row for _, row in batch.with_extras]
        new = {
            request.slot: request
            for request in (row.request for row in rows)
            if request.slot is not None
            and (self.keeps_all or request.sampling.has_penalties)
            and self._in_slots.get(request.slot) is not request
        }
        if not new:
            return
        names = {slot: f"{slot}: {request.request_id}" for slot, request in self._in_slots.items()}
        of_new = {slot: f"{slot}: {request.request_id}" for slot, request in new.items()}
        self._in_slots |= new
        num_slots, max_len = self.tables.token_ids.shape
        tokens, lengths = np.zeros((num_slots, max_len), np.int32), np.zeros(num_slots, np.int32)
        for slot, request in self._in_slots.items():
            known = request.tokens
            tokens[slot, : len(known)], lengths[slot] = known, len(known)
        all_names = names | of_new
        ids = [all_names.get(slot, f"{slot}") for slot in range(num_slots)]
        arrived = {name for name in ids if self._rows is None or name not in self._rows}
        self._rows = self.side.update_ngram(
            NgramBatch(ids, tokens, lengths),
            self.tables.token_ids,
            self.tables.num_tokens,
            self._rows,
            arrived | set(of_new.values()),
        )
        counted = {slot: each for slot, each in new.items() if each.sampling.has_penalties}
        if not counted:
            return
        slots = np.array(list(counted), np.int64)
        prompts = np.array([len(request.prompt) for request in counted.values()], np.int32)
        self.side.bincount(
            slots,
            self.tables.token_ids,
            prompts,
            lengths[slots],
            self.tables.prompt_bin_mask,
            self.tables.output_bin_counts,
        )
