"""The launches of the kernels of `solutions.pinned_h2d`."""

from functools import partial

import torch

from solutions.pinned_h2d.model.attention import choose_tile

from .arguments import launch

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def attention(
    dtype: str,
    head_size: int,
    group: int,
    window: int,
    *,
    clamp: bool = False,
    ranges: bool = True,
    max_query_len: int = 512,
    shared_memory: int,
) -> dict:
    """Describes a launch of the attention kernel, with the tile that is chosen for this dtype, head
    size and shared memory."""
    tile = choose_tile(DTYPES[dtype], head_size, group, max_query_len, shared_memory)
    tensors = dict.fromkeys(("output", "query", "key_cache", "value_cache"), f"*{dtype}")
    tables = dict.fromkeys(("block_table", "seq_lens", "query_start_loc", "ranges"), "*i32")
    strides = ("output_stride", "query_stride", "cache_block_stride", "cache_slot_stride")
    return launch(
        tensors
        | tables
        | {"max_ranges": "i32", "scale": "fp32"}
        | dict.fromkeys((*strides, "block_table_stride"), "i32"),
        [*tensors, *strides],
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
        GROUP=group,
        HEAD_SIZE=head_size,
        HEAD_PADDED=1 << (head_size - 1).bit_length(),
        PAGE=16,
        WINDOW=window,
        CLAMP_TO_WINDOW=clamp,
        HAS_RANGES=ranges,
        UPCAST=False,
        BLOCK_M=tile.block_m,
        BLOCK_N=tile.block_n,
    ) | {"tensor_cores": dtype != "fp32"}


LAUNCHES = {
    "solutions.pinned_h2d.model.attention:prefix_attention_kernel": {
        "bf16, head 256": partial(attention, "bf16", 256, group=2, window=1024),
        "bf16, head 128, clamped": partial(attention, "bf16", 128, group=4, window=256, clamp=True),
        "bf16, head 80": partial(attention, "bf16", 80, group=5, window=0),
        "fp16, head 64, no ranges": partial(
            attention, "fp16", 64, group=1, window=64, ranges=False
        ),
        "bf16, head 128, causal alone": partial(
            attention, "bf16", 128, group=1, window=0, ranges=False
        ),
        "fp32, head 256": partial(attention, "fp32", 256, group=2, window=64),
        "bf16, decode": partial(attention, "bf16", 256, group=2, window=0, max_query_len=1),
    },
}
VARIES = {
    "solutions.pinned_h2d.model.attention:prefix_attention_kernel": ("max_ranges", "ranges"),
}
