"""What each request has been told and has said so far, as a bit and as a count for each token."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(
    # Wherever a packed upload has them, it is the same compiled kernel.
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
    """One program: BLOCK tokens of one request."""
    request = tl.program_id(0)
    first = tl.program_id(1) * BLOCK
    prefill_len = tl.load(prefill_lens + request)
    if first >= prefill_len:
        return
    prompt_len = tl.load(prompt_lens + request)
    row = tl.load(rows + request)  # As int64: row * vocab_size needs it.
    position = first + tl.arange(0, BLOCK)
    token = tl.load(
        token_ids + row * token_stride + position, mask=position < prefill_len, other=-1
    )
    # Nobody could look at the ids before: one outside of the vocabulary must write nowhere.
    is_token = (token >= 0) & (token < vocab_size)
    in_prompt = position < prompt_len
    bit = tl.full([BLOCK], 1, tl.int32) << (token % 32)
    word = prompt_bin_mask + row * num_words + token // 32
    tl.atomic_or(word, bit, mask=is_token & in_prompt, sem="relaxed")
    count = output_bin_counts + row * vocab_size + token
    tl.atomic_add(count, 1, mask=is_token & ~in_prompt, sem="relaxed")
