"""Device memory of a step with drafts: the step's inputs, which the device writes itself, and the
tokens that it has of each request."""

from __future__ import annotations

import torch

from solutions.flex_graph.steps.inputs import ModelInputs

from ..run.step_inputs import DeviceInputs
from ..sampling.choose import choose_tokens
from ..sampling.wishes import FIRST, WIDTH
from .propose import propose
from .verify import HEAD, verify


class DraftedInputs(DeviceInputs):
    """The inputs of decode steps with drafts, which have 1 + num_drafts tokens of each request.
    They use the memory of `plain`."""

    def __init__(self, plain: DeviceInputs) -> None:
        vars(self).update(vars(plain))
        limits, device = plain.limits, plain.device
        seqs, width = limits.max_num_seqs, 1 + plain.num_drafts
        self.tokens_of_row = width

        def zeros(*shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        self.num_known, self.starts = zeros(seqs + 1), zeros(seqs)
        self.drafts = zeros(seqs, plain.num_drafts)
        self.row_wishes, self.row_slots = zeros(seqs * width, WIDTH), zeros(seqs * width)
        self.answers = zeros(seqs, HEAD + width, dtype=torch.int64)

    def prepare(self, num_tokens: int) -> None:
        """Makes drafts on the device, and writes the ids, positions and slots of the step's tokens
        there."""
        propose(
            self.tables.token_ids,
            self.num_known,
            self.arrays["lengths"],
            self.arrays["ends"],
            self.sampling_slots,
            self.block_table,
            self.wishes,
            (self.token_ids, self.positions, self.slot_mapping, self.seq_lens),
            self.starts,
            self.drafts,
            self.row_wishes,
            self.row_slots,
            num_tokens // self.tokens_of_row,
            self.limits.block_size,
        )

    def model_inputs(self, num_tokens: int) -> ModelInputs:
        """Returns views of the first `num_tokens` tokens. The device has written their ids."""
        return ModelInputs(
            self.token_ids[:num_tokens],
            self.positions[:num_tokens],
            self.slot_mapping[:num_tokens],
        )

    def choose(self, logits: torch.Tensor, counted_in: int = FIRST) -> torch.Tensor:
        """Returns [rows] int64: the token sampled after each token of the step, given that the
        drafts before it are right. Also verifies the drafts, and writes the accepted tokens to
        `answers`."""
        tokens = choose_tokens(
            logits, self.row_wishes, self.row_slots, self.tables, self.last_tokens, counted_in
        )
        verify(
            tokens,
            self.drafts,
            self.starts,
            self.arrays["ends"],
            self.sampling_slots,
            self.num_known,
            self.last_tokens,
            self.answers,
        )
        return tokens

    def answers_of(self, tokens: torch.Tensor) -> torch.Tensor:
        """Returns what the host reads back, [requests, HEAD + tokens_of_row] int64: the rows that
        `verify` wrote. Valid until the next step."""
        return self.answers[: len(tokens) // self.tokens_of_row]
