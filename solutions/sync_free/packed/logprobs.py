"""The log-probabilities of a few tokens of each row, without those of the whole vocabulary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import triton

from debubble.accelerator import Work, launch
from solutions.common.packed_upload import DeviceArrays, HostArrays, upload_packed

from ..kernels.logprobs_kernel import token_logprobs_kernel, vocabulary_block_kernel
from .chosen_tokens import ChosenTokensPlan, plan_chosen_tokens

TILE = 8192
"""Logits that one program reads, of one row if it has so many: enough programs for a GPU, however
few the rows."""
ROWS, IDS = 16, 32
"""Rows, and ids of each, that one program looks up."""


class LogprobsTensors(NamedTuple):
    """On the device. Column 0 is the sampled token, the others are the ids asked for."""

    logprob_token_ids: torch.Tensor
    """[num_rows, 1 + most ids of a row] int32; 0 where a row asks for fewer."""
    logprobs: torch.Tensor
    """The same shape, float32; -inf where a row asks for fewer."""
    selected_token_ranks: torch.Tensor
    """[num_rows] int64, as `compute_token_ranks` counts."""


def gather_specific_token_logprobs(
    logits: torch.Tensor, requested: Mapping[int, Sequence[int]], sampled: torch.Tensor
) -> LogprobsTensors | None:
    """Log-probabilities of the sampled token and of those that each row asks for, or None when
    `requested` is empty (vLLM #41429).

    `logits`: [num_rows, vocab_size] on the device. `requested`: row -> token ids. `sampled`:
    [num_rows] integers on the device. ValueError for a row or an id that doesn't exist.
    """
    check_logits(logits)
    if sampled.shape != logits.shape[:1]:
        raise ValueError(
            f"sampled tokens of shape {list(sampled.shape)} for logits of {list(logits.shape)}: "
            "there must be one for each row"
        )
    plan = plan_logprobs(requested, *logits.shape)
    return plan.apply(upload_packed(plan.arrays, logits.device), logits, sampled)


def plan_logprobs(
    requested: Mapping[int, Sequence[int]], num_rows: int, vocab_size: int
) -> LogprobsPlan:
    """ValueError for a row that is not in the batch, and for an id not in [0, vocab_size)."""
    chosen = plan_chosen_tokens(requested, num_rows, vocab_size)
    return LogprobsPlan(chosen.arrays if chosen else {}, chosen)


@dataclass(frozen=True)
class LogprobsPlan:
    """The arrays of `chosen`, or none when nobody asks."""

    arrays: HostArrays
    chosen: ChosenTokensPlan | None

    def apply(
        self, on_device: DeviceArrays, logits: torch.Tensor, sampled: torch.Tensor
    ) -> LogprobsTensors | None:
        if self.chosen is None:
            return None
        ids, counts = self.chosen.apply(on_device, sampled)
        return LogprobsTensors(ids, *score_tokens(logits, ids, counts))


def compute_token_logprobs(logits: torch.Tensor, token_ids: torch.Tensor) -> torch.Tensor:
    """[num_rows, K] float32: the log-softmax of `logits`, [num_rows, vocab_size], at `token_ids`,
    [num_rows, K] integers on the device.

    A logit of -inf gives -inf. So does an id outside of the vocabulary, where nothing is read. A
    row with NaN or inf in it, or with nothing but -inf, gives NaN, as log_softmax does.
    """
    return score_tokens(logits, token_ids)[0]


def compute_token_ranks(logits: torch.Tensor, token_ids: torch.Tensor) -> torch.Tensor:
    """[num_rows] int64: how many logits of the row are at least that of its token, [num_rows].

    So the most likely token has rank 1, and two that share the first place have rank 2 both.
    Upstream first counted those strictly greater, from 0, and later settled on this.
    """
    return score_tokens(logits, token_ids.unsqueeze(1))[1]


def score_tokens(
    logits: torch.Tensor, token_ids: torch.Tensor, counts: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities at `token_ids`, and the ranks of column 0, from one pass over the logits.

    token_ids: [num_rows, K] integers, K at least 1. counts: [num_rows] int32; ids of a row from
    that column on are not looked at, and give -inf.
    """
    check_logits(logits)
    if token_ids.dim() != 2 or len(token_ids) != len(logits) or not token_ids.shape[1]:
        raise ValueError(
            f"token ids of shape {list(token_ids.shape)} for logits of {list(logits.shape)}: "
            "there must be a row for each row of logits, and a column at least"
        )
    num_rows, vocab_size = logits.shape
    width = token_ids.shape[1]
    if token_ids.stride(1) != 1:
        token_ids = token_ids.contiguous()
    block = min(TILE, triton.next_power_of_2(vocab_size))
    num_blocks = triton.cdiv(vocab_size, block)
    highest = torch.empty(num_rows, num_blocks, dtype=torch.float32, device=logits.device)
    total, reaching = torch.empty_like(highest), torch.empty_like(highest, dtype=torch.int32)
    launch(
        vocabulary_block_kernel,
        (triton.cdiv(num_rows, TILE // block), num_blocks),
        highest,
        total,
        reaching,
        logits,
        token_ids,
        num_rows,
        vocab_size,
        num_blocks,
        logits.stride(0),
        token_ids.stride(0),
        ROWS=TILE // block,
        BLOCK=block,
        num_warps=8,
        work=lambda: Work(3.0 * logits.numel(), logits.nbytes, tensor_cores=False),
    )
    logprobs = torch.empty(num_rows, width, dtype=torch.float32, device=logits.device)
    ranks = torch.empty(num_rows, dtype=torch.int64, device=logits.device)
    launch(
        token_logprobs_kernel,
        (triton.cdiv(num_rows, ROWS), triton.cdiv(width, IDS)),
        logprobs,
        ranks,
        logits,
        token_ids,
        token_ids if counts is None else counts,
        highest,
        total,
        reaching,
        num_rows,
        width,
        vocab_size,
        num_blocks,
        logits.stride(0),
        token_ids.stride(0),
        HAS_COUNTS=counts is not None,
        ROWS=ROWS,
        IDS=IDS,
        BLOCKS=triton.next_power_of_2(num_blocks),
        num_warps=4,
        work=lambda: Work(bytes=2 * logprobs.nbytes + 3 * highest.nbytes, tensor_cores=False),
    )
    return logprobs, ranks


def check_logits(logits: torch.Tensor) -> None:
    if logits.dim() != 2 or not logits.shape[1]:
        raise ValueError(
            f"logits of shape {list(logits.shape)}: give [num_rows, vocab_size], "
            "with a token at least"
        )
    if logits.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        raise ValueError(f"logits of {logits.dtype}: use float32, bfloat16 or float16")
    if logits.shape[1] > 1 and logits.stride(1) != 1:
        raise ValueError(f"logits of strides {logits.stride()}: each row must be contiguous")
