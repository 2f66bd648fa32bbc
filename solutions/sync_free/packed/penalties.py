"""What penalties count: which tokens are in a prompt, and how often each was said since."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import triton

from debubble.accelerator import Work, launch
from solutions.common.packed_upload import DeviceArrays, HostArrays, upload_packed

from ..kernels.penalties_kernel import bincount_kernel
from .clear_rows import ClearedRowsPlan, plan_cleared_rows

BLOCK = 1024
"""Tokens that one program counts."""
BITS = 32
"""Tokens in one word of a prompt's mask."""

Integers = Sequence[int] | np.ndarray


def bincount(
    req_indices: Integers,
    all_token_ids: torch.Tensor,
    prompt_lens: Integers,
    prefill_lens: Integers,
    prompt_bin_mask: torch.Tensor,
    output_bin_counts: torch.Tensor,
) -> None:
    """Counts the tokens of new and resumed requests from the start (vLLM #41429).

    `req_indices`, `prompt_lens` and `prefill_lens`: [n] on the host: each request's row in the
    tables, the length of its prompt, and the number of its tokens so far, the prompt included.
    On the device, `all_token_ids` is [max_reqs, max_len] int32. These are written, in the rows of
    these requests alone: bit t % 32 of word t // 32 of `prompt_bin_mask`, [max_reqs,
    ceil(vocab_size / 32)] int32, says whether token t is in the prompt; `output_bin_counts`,
    [max_reqs, vocab_size] int32, how often it comes after it.

    The host can't see the ids on the device: one outside of the vocabulary is left out, and writes
    nowhere. ValueError for rows, lengths and tables that don't fit together.
    """
    check_tables(all_token_ids, prompt_bin_mask, output_bin_counts)
    plan = plan_bincount(req_indices, prompt_lens, prefill_lens, *all_token_ids.shape)
    on_device = upload_packed(plan.arrays, all_token_ids.device)
    plan.apply(on_device, all_token_ids, prompt_bin_mask, output_bin_counts)


def plan_bincount(
    req_indices: Integers,
    prompt_lens: Integers,
    prefill_lens: Integers,
    max_reqs: int,
    max_len: int,
) -> BincountPlan:
    """ValueError for a request that is not in [0, max_reqs) or is named twice, whose tokens would
    count double, and for lengths that are not 0 <= prompt_len <= prefill_len <= max_len."""
    cleared = plan_cleared_rows(req_indices, max_reqs)
    requests = cleared.arrays["rows"]
    prompts = np.asarray(prompt_lens, dtype=np.int64)
    prefills = np.asarray(prefill_lens, dtype=np.int64)
    _check_requests(requests, prompts, prefills, max_len)
    arrays = {
        **cleared.arrays,
        "prompt_lens": prompts.astype(np.int32),
        "prefill_lens": prefills.astype(np.int32),
    }
    return BincountPlan(arrays, cleared, int(prefills.max(initial=0)))


@dataclass(frozen=True)
class BincountPlan:
    """`rows`: [n] int64, `prompt_lens` and `prefill_lens`: [n] int32."""

    arrays: HostArrays
    cleared: ClearedRowsPlan
    max_prefill_len: int

    def apply(
        self,
        on_device: DeviceArrays,
        all_token_ids: torch.Tensor,
        prompt_bin_mask: torch.Tensor,
        output_bin_counts: torch.Tensor,
    ) -> None:
        tables = prompt_bin_mask, output_bin_counts
        self.cleared.apply(on_device, tables)
        count_tokens(on_device, all_token_ids, *tables, self.max_prefill_len)


def count_tokens(
    on_device: DeviceArrays,
    all_token_ids: torch.Tensor,
    prompt_bin_mask: torch.Tensor,
    output_bin_counts: torch.Tensor,
    max_prefill_len: int,
) -> None:
    """Adds to what the tables hold. `on_device`: the arrays of a BincountPlan."""
    rows = on_device["rows"]
    launch(
        bincount_kernel,
        (len(rows), triton.cdiv(max_prefill_len, BLOCK)),
        prompt_bin_mask,
        output_bin_counts,
        all_token_ids,
        rows,
        on_device["prompt_lens"],
        on_device["prefill_lens"],
        all_token_ids.stride(0),
        prompt_bin_mask.shape[1],
        output_bin_counts.shape[1],
        BLOCK=BLOCK,
        # Each token is read, and a word or a count of it read and written.
        work=lambda: Work(bytes=12 * len(rows) * max_prefill_len, tensor_cores=False),
    )


def check_tables(
    all_token_ids: torch.Tensor, prompt_bin_mask: torch.Tensor, output_bin_counts: torch.Tensor
) -> None:
    """ValueError for tables that don't belong together."""
    tables = {
        "all_token_ids": all_token_ids,
        "prompt_bin_mask": prompt_bin_mask,
        "output_bin_counts": output_bin_counts,
    }
    for name, table in tables.items():
        if table.dim() != 2 or table.dtype != torch.int32 or not table.is_contiguous():
            raise ValueError(
                f"{name} is {table.dtype} {list(table.shape)} of strides {table.stride()}: make it "
                "torch.int32, of two dimensions, and contiguous"
            )
    sizes = [len(table) for table in tables.values()]
    if len(set(sizes)) > 1:
        raise ValueError(f"tables of {sizes} rows: all of them must have max_reqs rows")
    vocab_size, words = output_bin_counts.shape[1], prompt_bin_mask.shape[1]
    if words != triton.cdiv(vocab_size, BITS):
        raise ValueError(
            f"{words} words of {BITS} bits for {vocab_size} tokens: make it "
            f"{triton.cdiv(vocab_size, BITS)}"
        )


def _check_requests(
    requests: np.ndarray, prompts: np.ndarray, prefills: np.ndarray, max_len: int
) -> None:
    if not len(requests) == len(prompts) == len(prefills):
        raise ValueError(
            f"{len(requests)} requests, {len(prompts)} prompt lengths and {len(prefills)} prefill "
            "lengths: there must be one of each for every request"
        )
    wrong = np.flatnonzero((prompts < 0) | (prompts > prefills) | (prefills > max_len))
    if wrong.size:
        at = wrong[0]
        raise ValueError(
            f"request {requests[at]} has a prompt of {prompts[at]} tokens, and {prefills[at]} in "
            f"all: 0 <= prompt <= all <= {max_len} must hold, as the table has {max_len} a request"
        )
    known, times = np.unique(requests, return_counts=True)
    often = np.flatnonzero(times > 1)
    if often.size:
        raise ValueError(
            f"request {known[often[0]]} is named {times[often[0]]} times, and its tokens would be "
            "counted as often: name it once"
        )
