"""Which requests of a step are speculative: a token to go on from, and drafts to be verified."""

from __future__ import annotations

import numpy as np
import torch

from solutions.common.host_integers import HostIntegers, host_integers

from .batch import check_on_device

NOT_SPECULATIVE = -1
"""The number of draft tokens of any other request."""


def checked_speculation(
    query_lens: np.ndarray,
    state_indices: torch.Tensor,
    num_accepted_tokens: torch.Tensor | None,
    num_decode_draft_tokens_cpu: HostIntegers | None,
) -> np.ndarray:
    """[num_requests] bool on the host. Without draft tokens nobody is speculative.

    ValueError for drafts that don't fit the batch, and if nobody says how many tokens of the last
    step's drafts were accepted.
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
