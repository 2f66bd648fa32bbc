"""One step's batch, as a scheduler hands it over: the same on the host and on the device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from solutions.common.host_integers import HostIntegers, host_integers
from solutions.common.sequence_lengths import sequence_lengths


@dataclass(frozen=True)
class CommonAttentionMetadata:
    """The requests of a step, in the order of their tokens: decodes of one token first, then
    prefills, and requests without tokens, which pad the batch, last. Speculative requests may
    stand anywhere before the padding."""

    query_start_loc: torch.Tensor
    """[num_requests + 1] int32 on the device: where each one's tokens start, then the last end."""
    query_start_loc_cpu: HostIntegers
    """The same numbers on the host."""
    seq_lens: torch.Tensor
    """[num_requests] int32 on the device: tokens that were computed before, and those of this
    step. 0 for padding."""
    seq_lens_cpu: HostIntegers
    """The same numbers on the host."""
    state_indices: torch.Tensor
    """[num_requests, 1 + most draft tokens] int32 on the device: the slots of a request's states.
    A speculative request with d draft tokens leaves its states in the first 1 + d columns, and
    goes on from the one that the last step's accepted tokens lead to, which may lie behind them:
    all its slots stay. Any other request has column 0 alone; PAD_SLOT (-1) is no slot."""
    num_actual_tokens: int
    """Of all requests in this step."""


@dataclass(frozen=True)
class RequestLengths:
    """Of each request, [num_requests] int64 on the host: its tokens in this step, and how many
    were computed before."""

    query_lens: np.ndarray
    num_computed: np.ndarray


def checked_lengths(common: CommonAttentionMetadata, device: torch.device) -> RequestLengths:
    """ValueError for a batch that cannot be: by the values of what is on the host, by the shapes
    and types alone of what is on the device."""
    query_lens = sequence_lengths(
        "query_start_loc_cpu", common.query_start_loc_cpu, common.num_actual_tokens, "request"
    )
    seq_lens = host_integers("seq_lens_cpu", common.seq_lens_cpu)
    _check_seq_lens(seq_lens, query_lens)
    _check_padding(query_lens)
    num_requests = len(query_lens)
    check_on_device("query_start_loc", common.query_start_loc, num_requests + 1, device)
    check_on_device("seq_lens", common.seq_lens, num_requests, device)
    _check_state_indices(common.state_indices, num_requests, device)
    return RequestLengths(query_lens, seq_lens - query_lens)


def check_on_device(name: str, tensor: torch.Tensor, size: int, device: torch.device) -> None:
    right = tensor.shape == (size,) and tensor.dtype == torch.int32 and tensor.device == device
    if not right or not tensor.is_contiguous():
        raise ValueError(
            f"{name} is {tensor.dtype} {list(tensor.shape)} on {tensor.device}: make it "
            f"torch.int32 [{size}], contiguous, on {device}"
        )


def _check_seq_lens(seq_lens: np.ndarray, query_lens: np.ndarray) -> None:
    if len(seq_lens) != len(query_lens):
        raise ValueError(
            f"seq_lens_cpu has {len(seq_lens)} entries, and query_start_loc_cpu is of "
            f"{len(query_lens)} requests: give each request one"
        )
    too_short = seq_lens < query_lens
    if too_short.any():
        at = int(np.argmax(too_short))
        raise ValueError(
            f"request {at} has {query_lens[at]} tokens in this step and {seq_lens[at]} in all "
            "(seq_lens_cpu): count those of this step too"
        )


def _check_padding(query_lens: np.ndarray) -> None:
    is_padding = query_lens == 0
    if not is_padding.any():
        return
    first = int(np.argmax(is_padding))
    if not is_padding[first:].all():
        behind = first + int(np.argmin(is_padding[first:]))
        raise ValueError(
            f"request {behind} has {query_lens[behind]} tokens and comes after request {first}, "
            "which has none: requests without tokens pad a batch, put them last"
        )


def _check_state_indices(slots: torch.Tensor, num_requests: int, device: torch.device) -> None:
    right = slots.dim() == 2 and len(slots) == num_requests and slots.shape[1] > 0
    if not right or slots.dtype != torch.int32 or slots.device != device:
        raise ValueError(
            f"state_indices is {slots.dtype} {list(slots.shape)} on {slots.device}: make it "
            f"torch.int32 [{num_requests}, 1 + most draft tokens], on {device}"
        )
