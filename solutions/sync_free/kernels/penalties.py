"""Counts the tokens of requests: a bit for each token in a prompt, a count for each token after
it."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from debubble.accelerator import Work, launch
from solutions.common.packed_upload import DeviceArrays

BLOCK = 1024
"""Number of tokens that one program counts."""
BITS = 32
"""Number of tokens that one word of a prompt's mask has a bit for."""


@triton.jit(
    # One compiled kernel serves these arrays at any address in a packed upload.
    do_not_specialize_on_alignment=["rows", "prompt_lens", "prefill_lens"],
)
def bincount_kernel(
    prompt_bin_mask,  # [max_reqs, num_words] int32, contiguous
    output_bin_counts,  # [max_reqs, vocab_size] int32, contiguous
    token_ids,  # [max_reqs, max_len] int32, each row contiguous
    rows,  # [n] int64
    prompt_lens,  # [n] int32
    prefill_lens,  # [n] int32
    token_stride,
    num_words,
    vocab_size,
    BLOCK: tl.constexpr,
):
    """Counts BLOCK tokens of one request: sets bits for those in the prompt, and adds 1 for each
    after it."""
    request = tl.program_id(0)
    first = tl.program_id(1) * BLOCK
    prefill_len = tl.load(prefill_lens + request)
    if first >= prefill_len:
        return
    prompt_len = tl.load(prompt_lens + request)
    row = tl.load(rows + request)  # int64: row * vocab_size needs it
    position = first + tl.arange(0, BLOCK)
    token = tl.load(
        token_ids + row * token_stride + position, mask=position < prefill_len, other=-1
    )
    # The host can't check the ids: an id outside of the vocabulary must write nowhere.
    is_token = (token >= 0) & (token < vocab_size)
    in_prompt = position < prompt_len
    bit = tl.full([BLOCK], 1, tl.int32) << (token % 32)
    word = prompt_bin_mask + row * num_words + token // 32
    tl.atomic_or(word, bit, mask=is_token & in_prompt, sem="relaxed")
    count = output_bin_counts + row * vocab_size + token
    tl.atomic_add(count, 1, mask=is_token & ~in_prompt, sem="relaxed")


def count_tokens(
    on_device: DeviceArrays,
    all_token_ids: torch.Tensor,
    prompt_bin_mask: torch.Tensor,
    output_bin_counts: torch.Tensor,
    max_prefill_len: int,
) -> None:
    """Adds the tokens of n requests to both tables, in one launch. `on_device` has `rows` [n]
    int64, and `prompt_lens` and `prefill_lens` [n] int32. The tables are those of the site
    `bincount`."""
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
        # Each token is read, and a word or a count is read and written for it.
        work=lambda: Work(bytes=12 * len(rows) * max_prefill_len, tensor_cores=False),
    )


def check_tables(
    all_token_ids: torch.Tensor, prompt_bin_mask: torch.Tensor, output_bin_counts: torch.Tensor
) -> None:
    """Raises ValueError unless all three tables are int32, contiguous, on one device that is not
    the CPU, and of the shapes that `bincount` names."""
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
        if table.device != all_token_ids.device or table.device.type == "cpu":
            raise ValueError(
                f"{name} is on {table.device}, and all_token_ids on {all_token_ids.device}: all "
                "tables must be on the accelerator"
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
