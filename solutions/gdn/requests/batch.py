"""The requests of one step: given by a scheduler, checked once, and split by kind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from solutions.common.host_integers import HostIntegers, host_integers, sequence_lengths


@dataclass(frozen=True)
class GDNCommonMetadata:
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
    """[num_requests, 1 + most draft tokens] int32 on the device: the slots of a request's states. A
    speculative request with d draft tokens leaves its states in the first 1 + d columns, and
    continues from the slot after the last step's accepted tokens, which may be a later column, so
    it keeps all its slots. Any other request has only column 0; PAD_SLOT (-1) is no slot."""
    num_actual_tokens: int
    """Tokens of all requests together in this step."""


@dataclass(frozen=True)
class RequestLengths:
    """Two lengths of each request, [num_requests] int64 on the host: its tokens in this step, and
    its tokens that were computed before."""

    query_lens: np.ndarray
    num_computed: np.ndarray


def checked_lengths(common: GDNCommonMetadata, device: torch.device) -> RequestLengths:
    """Returns how many tokens each request of the batch has in this step, and how many were
    computed before.

    Raises ValueError for a batch that can't exist. It checks the values of whatever is on the host,
    and only shapes and dtypes of whatever is on the device.
    """
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
    """Raises ValueError unless `tensor` is int32 [size], contiguous, on `device`."""
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


NOT_SPECULATIVE = -1
"""The number given as a request's draft tokens if the request is not speculative."""


def checked_speculation(
    query_lens: np.ndarray,
    state_indices: torch.Tensor,
    num_accepted_tokens: torch.Tensor | None,
    num_decode_draft_tokens_cpu: HostIntegers | None,
) -> np.ndarray:
    """Returns [num_requests] bool on the host: True for speculative requests. All are False if
    `num_decode_draft_tokens_cpu` is None.

    Raises ValueError for drafts that don't fit the batch, and if a request is speculative but
    `num_accepted_tokens` is None.
    """
    num_requests = len(query_lens)
    if num_accepted_tokens is not None:
        device = state_indices.device
        check_on_device("num_accepted_tokens", num_accepted_tokens, num_requests, device)
    if num_decode_draft_tokens_cpu is None:
        return np.zeros(num_requests, bool)
    drafts = host_integers("num_decode_draft_tokens_cpu", num_decode_draft_tokens_cpu)
    _check_drafts(drafts, query_lens, num_slots=state_indices.shape[1])
    is_speculative = drafts >= 0
    if num_accepted_tokens is None and is_speculative.any():
        raise ValueError(
            f"num_accepted_tokens is None, and request {np.argmax(is_speculative)} is speculative: "
            "it tells which of a request's states to go on from"
        )
    return is_speculative


def _check_drafts(drafts: np.ndarray, query_lens: np.ndarray, num_slots: int) -> None:
    if len(drafts) != len(query_lens):
        raise ValueError(
            f"num_decode_draft_tokens_cpu has {len(drafts)} entries for {len(query_lens)} "
            f"requests: give each one, {NOT_SPECULATIVE} where it is not speculative"
        )
    unknown = drafts < NOT_SPECULATIVE
    if unknown.any():
        at = int(np.argmax(unknown))
        raise ValueError(
            f"request {at} has {drafts[at]} draft tokens: use {NOT_SPECULATIVE} for a request that "
            "is not speculative"
        )
    mismatched = (drafts >= 0) & (query_lens != 1 + drafts)
    if mismatched.any():
        at = int(np.argmax(mismatched))
        raise ValueError(
            f"request {at} has {query_lens[at]} tokens in this step and {drafts[at]} draft tokens: "
            f"a speculative request has 1 + its drafts, here {1 + drafts[at]}"
        )
    if drafts.max(initial=NOT_SPECULATIVE) >= num_slots:
        at = int(np.argmax(drafts))
        raise ValueError(
            f"request {at} has {drafts[at]} draft tokens, and state_indices {num_slots} columns: a "
            f"state is kept after each of its {1 + drafts[at]} tokens"
        )


@dataclass(frozen=True)
class RequestSplit:
    """A step's requests split by kind: how many requests and tokens of each kind there are, counted
    as in GDNAttentionMetadata. `is_speculative` is [num_requests] bool on the host."""

    lengths: RequestLengths
    is_speculative: np.ndarray
    num_decodes: int
    num_prefills: int
    num_prefill_tokens: int
    num_spec_decodes: int
    num_spec_decode_tokens: int
    num_padding: int

    @property
    def num_non_spec_tokens(self) -> int:
        return self.num_decodes + self.num_prefill_tokens

    @property
    def num_tokens(self) -> int:
        return self.num_non_spec_tokens + self.num_spec_decode_tokens

    @property
    def is_mixed(self) -> bool:
        """True if the step has both speculative requests and prefills, whose tokens have to be
        separated."""
        return bool(self.num_spec_decodes and self.num_prefills)

    @property
    def is_speculative_alone(self) -> bool:
        """True if there are speculative requests, and every other request is padding."""
        return bool(self.num_spec_decodes and not self.num_prefills)

    @property
    def non_spec_query_lens(self) -> np.ndarray:
        """[num_seqs] int64 on the host: tokens in this step of each request that is not
        speculative."""
        return self.lengths.query_lens[~self.is_speculative]


def split_requests(lengths: RequestLengths, is_speculative: np.ndarray) -> RequestSplit:
    """Returns how many requests and tokens of each kind there are. A decode has one token and
    continues from a state. The first request that is no decode ends the decodes: it and all
    requests after it count as prefills, even those with one token and a state. Next to speculative
    requests no request counts as a decode."""
    query_lens = lengths.query_lens
    num_spec_decodes = int(is_speculative.sum())
    num_spec_decode_tokens = int(query_lens[is_speculative].sum())
    num_other_tokens = int(query_lens.sum()) - num_spec_decode_tokens
    num_decodes = 0 if num_spec_decodes else _leading_decodes(lengths)
    num_prefill_tokens = num_other_tokens - num_decodes
    # Padding stays at the end: after prefills it counts as prefills without tokens.
    num_others = len(query_lens) - num_spec_decodes - num_decodes
    num_prefills, num_padding = (num_others, 0) if num_prefill_tokens else (0, num_others)
    return RequestSplit(
        lengths,
        is_speculative,
        num_decodes,
        num_prefills,
        num_prefill_tokens,
        num_spec_decodes,
        num_spec_decode_tokens,
        num_padding,
    )


def _leading_decodes(lengths: RequestLengths) -> int:
    # A prompt of one token is no decode: a decode's kernels always continue from the slot's state,
    # which here is that of the slot's last owner.
    is_decode = (lengths.query_lens == 1) & (lengths.num_computed > 0)
    return int(np.argmin(np.append(is_decode, False)))


def starts_of(lengths: np.ndarray) -> np.ndarray:
    """Returns [n + 1] int32: where each of n sequences starts, then the end of the last one."""
    starts = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=starts[1:])
    return starts
