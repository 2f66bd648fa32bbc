"""Inputs of a step besides weights and caches: persistent device memory, and the upload to it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from solutions.common.persistent_arrays import PersistentArrays
from solutions.flex_graph import Limits
from solutions.flex_graph.steps.inputs import ModelInputs

from ..requests.step_batch import DRAFTED, FROM_HOST, NO_SLOT, StepBatch
from ..sampling.choose import CountTables, choose_tokens
from ..sampling.wishes import FIRST, SECOND, WIDTH, wishes_of


class DeviceInputs:
    """The inputs of a step, int32 on the device, at addresses that graphs may keep.

    After a batch, and in new memory, there is padding: requests without tokens, and tokens that
    write nowhere. With T = max_num_batched_tokens and S = max_num_seqs:

    token_ids, positions   [T], 0 after the batch
    token_sources          [T], FROM_HOST after it
    slot_mapping           [T], -1 after it
    query_start_loc        [S + 1], the batch's end after it
    seq_lens               [S], 0 after it
    slots                  [S], NO_SLOT after it
    logits_rows            [S], 0 after it
    sampling_slots         [S], S after it, a slot of no request
    wishes                 [S, WIDTH] of the rows that sample, 0 after them: greedy
    block_table            [S, pages_per_seq], undefined where no token is

    `last_tokens` [S + 1] int64 are the tokens sampled last, by slot; the last slot belongs to no
    request. `tables` are the counts for penalties, by slot too. With `num_drafts` there are more:

    lengths, ends          [S], of a DraftedBatch, 0 after it and in all other steps
    """

    tokens_of_row = 1
    """Tokens of each request in a step that decodes."""

    def __init__(
        self, limits: Limits, vocab_size: int, device: torch.device, num_drafts: int = 0
    ) -> None:
        self.limits, self.device, self.num_drafts = limits, device, num_drafts
        self.arrays = arrays = PersistentArrays(_sizes(limits, num_drafts), device)
        self.token_ids, self.positions = arrays["token_ids"], arrays["positions"]
        self.token_sources = arrays["token_sources"].fill_(FROM_HOST)
        self.slot_mapping = arrays["slot_mapping"].fill_(-1)
        self.query_start_loc, self.seq_lens = arrays["query_start_loc"], arrays["seq_lens"]
        self.slots = arrays["slots"].fill_(NO_SLOT)
        self.logits_rows = arrays["logits_rows"]
        self.sampling_slots = arrays["sampling_slots"].fill_(limits.max_num_seqs)
        table_shape = (limits.max_num_seqs, limits.pages_per_seq)
        self.block_table = arrays["block_table"].view(table_shape)
        self.wishes = arrays["wishes"].view(limits.max_num_seqs, WIDTH)
        self.tables = CountTables.zeros(
            limits.max_num_seqs, limits.max_model_len, vocab_size, device
        )
        self.last_tokens = torch.zeros(limits.max_num_seqs + 1, dtype=torch.int64, device=device)

    def upload(self, batch: StepBatch) -> None:
        """Uploads a batch. The copy is queued after the step that may still read the last batch."""
        raise NotImplementedError

    def prepare(self, num_tokens: int) -> None:
        """Writes inputs that only the device knows, before metadata is built from them: none in
        this class."""

    def model_inputs(self, num_tokens: int) -> ModelInputs:
        """Returns views of the first `num_tokens` tokens, and fills in the ids that only the device
        knows."""
        sources = self.token_sources[:num_tokens]
        sampled = self.last_tokens.index_select(0, sources.clamp(min=0)).to(torch.int32)
        return ModelInputs(
            torch.where(sources == FROM_HOST, self.token_ids[:num_tokens], sampled),
            self.positions[:num_tokens],
            self.slot_mapping[:num_tokens],
        )

    def choose(self, logits: torch.Tensor, counted_in: int = FIRST) -> torch.Tensor:
        """Returns [rows] int64: the tokens of the first rows that sample, from their `logits`
        [rows, vocab_size] and sampling parameters. Also writes them where the next step reads them.
        `counted_in`: FIRST, or SECOND if the tokens chosen first were not allowed."""
        return choose_tokens(
            logits, self.wishes, self.sampling_slots, self.tables, self.last_tokens, counted_in
        )

    def answers_of(self, tokens: torch.Tensor) -> torch.Tensor:
        """Returns what the host reads back for the chosen tokens [rows]: the tokens themselves."""
        return tokens

    def arrays_of(self, batch: StepBatch) -> Mapping[str, tuple[np.ndarray, int | None]]:
        """Returns, for each array, the batch's values, int32, and the number that fills the rest of
        the array: None if the rest may stay."""
        nothing = np.zeros(0, np.int32)
        names = DRAFTED if self.num_drafts else ()
        drafted = {name: (batch.drafted_arrays.get(name, nothing), 0) for name in names}
        wishes = wishes_of(
            batch.sampling_numbers,
            batch.next_positions,
            # Tokens counted in the first round would be penalised in the second.
            SECOND if batch.is_chosen_twice else FIRST,
            with_positions=bool(self.num_drafts),
        )
        return {
            **drafted,
            "token_ids": (batch.token_ids, 0),
            "positions": (batch.positions, 0),
            "token_sources": (batch.token_sources, FROM_HOST),
            "slot_mapping": (batch.slot_mapping(self.limits.block_size), -1),
            "query_start_loc": (batch.query_start_loc, batch.num_tokens),
            "seq_lens": (batch.seq_lens, 0),
            "slots": (batch.slots, NO_SLOT),
            "logits_rows": (batch.logits_rows, 0),
            "sampling_slots": (batch.sampling_slots, self.limits.max_num_seqs),
            "wishes": (wishes.reshape(-1), 0),
            "block_table": (batch.block_table.reshape(-1), None),
        }


class PackedInputs(DeviceInputs):
    """The inputs with sync_free: all arrays in one upload from pinned memory, without a wait."""

    def upload(self, batch: StepBatch) -> None:
        self.arrays.upload(self.arrays_of(batch))


class SeparateInputs(DeviceInputs):
    """The inputs without sync_free: an upload and a wait for each array, from pageable memory."""

    def upload(self, batch: StepBatch) -> None:
        for name, (values, behind) in self.arrays_of(batch).items():
            part = self.arrays[name]
            if name == "wishes" and not values.any():
                part.zero_()
                continue
            part[: len(values)] = torch.tensor(
                values.tolist(), dtype=torch.int32, device=self.device
            )
            if behind is not None:
                part[len(values) :] = behind


def _sizes(limits: Limits, num_drafts: int) -> dict[str, int]:
    """Returns the length of each array. The block table is the last, so that its rows without a
    request need not be uploaded."""
    tokens, seqs = limits.max_num_batched_tokens, limits.max_num_seqs
    sizes = dict.fromkeys(("token_ids", "positions", "token_sources", "slot_mapping"), tokens)
    sizes |= {"query_start_loc": seqs + 1}
    sizes |= dict.fromkeys(("seq_lens", "slots", "logits_rows", "sampling_slots"), seqs)
    sizes |= {"wishes": seqs * WIDTH}
    if num_drafts:
        sizes |= dict.fromkeys(DRAFTED, seqs)
    return sizes | {"block_table": seqs * limits.pages_per_seq}
