"""The launches of the kernels of `solutions.flex_graph`."""

from functools import partial

from solutions.common.decoder import (
    add_rms_norm,
    attend,
    attend_many,
    few_rows,
    rotate_and_cache,
    silu_and_mul,
)
from solutions.flex_graph.measure import step_limits
from solutions.flex_graph.tables import device_build

from .arguments import launch, pointers


def request_tables(page: int) -> dict:
    """Describes a launch of the kernel that makes the tables of a paged mask."""
    tables = (
        "query_start_loc seq_lens block_table doc_ids decode_offset physical_to_logical page_users"
        " known_pages num_known_pages"
    )
    sizes = ("num_seqs", "num_tokens", "pages_per_seq", "max_pages", "num_blocks")
    return launch(
        pointers("i32", tables) | dict.fromkeys(sizes, "i32"),
        tables.split(),
        num_warps=device_build.NUM_WARPS,
        PAGE=page,
        TILE=device_build.TILE,
    )


def group_pages(
    written: str, looked_up: str, page: int, causal: bool, window: int, group: int = 16
) -> dict:
    """Describes a launch of one of the kernels that list the pages of each group of tokens."""
    tables = "query_start_loc seq_lens block_table doc_ids decode_offset"
    arguments = pointers("i32", f"{written} num_needed {tables} {looked_up}") | {"needs": "*i8"}
    sizes = ["num_seqs", "num_tokens", "pages_per_seq", "max_pages"]
    sizes += ["num_blocks"] if looked_up else []
    return launch(
        arguments | dict.fromkeys(sizes, "i32"),
        [*arguments],
        num_warps=device_build.NUM_WARPS,
        GROUP=group,
        PAGE=page,
        CAUSAL=causal,
        WINDOW=window,
        TILE=device_build.TILE,
    )


def rotations(dtype: str, num_heads: int, num_kv_heads: int, size: int, norms: str = "") -> dict:
    """Describes a launch of the kernel that rotates queries and keys, and writes keys and values to
    the KV cache."""
    tensors = pointers(dtype, "qkv key_cache value_cache") | {"cos_sin": "*fp32"}
    tensors |= pointers(norms or "fp32", "query_norm key_norm")
    block = 1 << (size // 2 - 1).bit_length()
    return launch(
        tensors
        | pointers("i32", "positions slots")
        | {"eps": "fp32"}
        | dict.fromkeys(("num_rows", "qkv_stride"), "i32"),
        [*tensors, "qkv_stride"],
        QUERY_HEADS=num_heads,
        KV_HEADS=num_kv_heads,
        SIZE=size,
        HAS_NORMS=bool(norms),
        ROWS=rotate_and_cache.TILE // block,
        BLOCK=block,
    )


def attention_of_few(
    dtype: str, num_heads: int, num_kv_heads: int, size: int, window: int = 0, norms: str = ""
) -> dict:
    """Describes a launch of the kernel that computes the attention of few tokens."""
    tensors = pointers(dtype, "output qkv key_cache value_cache")
    tensors |= pointers("i32", "query_start_loc seq_lens block_table arrived")
    tensors |= pointers("fp32", "cos_sin partial logs")
    tensors |= pointers(norms or "fp32", "query_norm key_norm")
    group = num_heads // num_kv_heads
    ones = 1 << (group - 1).bit_length()
    return launch(
        tensors
        | pointers("i32", "slots doc_ids")
        | dict.fromkeys(("eps", "scale"), "fp32")
        | dict.fromkeys(("qkv_stride", "num_pages"), "i32"),
        [*tensors, "qkv_stride"],
        num_warps=attend.WARPS,
        num_stages=attend.STAGES,
        KV_HEADS=num_kv_heads,
        GROUP=group,
        SIZE=size,
        PAGE=16,
        WINDOW=window,
        HAS_NORMS=bool(norms),
        ONES=ones,
        HEADS=max(16, ones),
        NEW=attend.MOST_TOKENS,
        KEYS=attend.KEYS,
        SPLITS=attend.SPLITS,
        UPCAST=False,
    ) | {"tensor_cores": dtype != "fp32"}


def attention_of_many(
    dtype: str,
    tile: attend_many.QueryTile,
    num_heads: int,
    num_kv_heads: int,
    size: int,
    window: int = 0,
) -> dict:
    """Describes a launch of the kernel that computes the attention of many tokens."""
    tensors = pointers(dtype, "output queries key_cache value_cache")
    tensors |= pointers("i32", "query_start_loc seq_lens block_table")
    numbers = ("num_tokens", "num_requests", "query_stride", "num_pages")
    return launch(
        tensors | {"scale": "fp32"} | dict.fromkeys(numbers, "i32"),
        [*tensors, "query_stride"],
        num_warps=tile.warps,
        num_stages=tile.stages,
        KV_HEADS=num_kv_heads,
        GROUP=num_heads // num_kv_heads,
        SIZE=size,
        PAGE=16,
        WINDOW=window,
        REQUESTS=16,
        ROWS=tile.rows,
        KEYS=tile.keys,
        UPCAST=False,
    ) | {"tensor_cores": dtype != "fp32"}


def residual_norms(dtype: str, size: int, *, has_update: bool = True) -> dict:
    """Describes a launch of the kernel that adds the update to the residual and normalises the
    sum."""
    tensors = pointers(dtype, "normed residual update weight")
    block = 1 << (size - 1).bit_length()
    return launch(
        tensors | {"eps": "fp32", "num_rows": "i32"},
        [*tensors],
        num_warps=16 if block > add_rms_norm.TILE else 8,
        SIZE=size,
        HAS_UPDATE=has_update,
        ROWS=max(1, add_rms_norm.TILE // block),
        BLOCK=block,
    )


def products_of_few_rows(
    dtype: str, tile: few_rows.WeightTile = few_rows.SMALLEST, gates: bool = False
) -> dict:
    """Describes a launch of the kernel that multiplies few tokens by a large weight."""
    tensors = pointers(dtype, "output inputs weight")
    return launch(
        tensors | dict.fromkeys(("num_tokens", "rows", "columns"), "i32"),
        [*tensors, "rows", "columns"],
        num_warps=tile.warps,
        num_stages=tile.stages,
        TOKENS=few_rows.MOST_ROWS,
        ROWS=tile.rows,
        COLUMNS=tile.columns,
        GATES=gates,
        UPCAST=False,
    ) | {"tensor_cores": True}


def mlp_gates(dtype: str, size: int, gelu: bool = False) -> dict:
    """Describes a launch of the kernel that computes the gated activation of an MLP."""
    tensors = pointers(dtype, "output gate_up")
    block = min(1 << (size - 1).bit_length(), silu_and_mul.TILE)
    return launch(
        tensors | {"num_rows": "i32"},
        [*tensors],
        SIZE=size,
        GELU=gelu,
        ROWS=silu_and_mul.TILE // block,
        BLOCK=block,
    )


def reading() -> dict:
    """Describes a launch of the kernel that reads a large buffer once, as a step reads its
    weights."""
    return launch(
        pointers("i32", "numbers seen") | {"num_blocks": "i32"},
        ["numbers", "seen"],
        BLOCK=step_limits.BLOCK,
    )


needed_pages = partial(group_pages, "", "physical_to_logical page_users")


packed_pages = partial(group_pages, "kv_num_blocks kv_indices", "")


LAUNCHES = {
    "solutions.flex_graph.tables.request_tables:request_tables_kernel": {
        "pages of 16": request_tables(16),
    },
    "solutions.flex_graph.tables.group_pages:needed_pages_kernel": {
        "causal": needed_pages(16, True, 0),
        "bidirectional, a window": needed_pages(128, False, 4096),
        "each token alone": needed_pages(16, True, 0, 1),
    },
    "solutions.flex_graph.tables.group_pages:packed_pages_kernel": {
        "causal": packed_pages(16, True, 0),
        "bidirectional, a window": packed_pages(128, False, 4096),
        "each token alone": packed_pages(16, True, 0, 1),
    },
    "solutions.common.decoder.rotate_and_cache:rotate_and_cache_kernel": {
        "bf16, heads of 128": rotations("bf16", 32, 8, 128),
        "fp16, heads of 80": rotations("fp16", 5, 1, 80),
        "fp32, heads of 64": rotations("fp32", 12, 12, 64),
        "bf16, norms": rotations("bf16", 16, 8, 128, "bf16"),
        "bf16, norms in fp32": rotations("bf16", 4, 1, 256, "fp32"),
    },
    "solutions.common.decoder.attend:attend_kernel": {
        "bf16, 4 heads of 128": attention_of_few("bf16", 32, 8, 128),
        "fp16, 7 heads of 64, a window": attention_of_few("fp16", 14, 2, 64, 1024),
        "bf16, norms": attention_of_few("bf16", 16, 8, 128, 0, "bf16"),
        "bf16, 16 heads of 256": attention_of_few("bf16", 16, 1, 256, 512, "fp32"),
        "fp32, 1 head of 64": attention_of_few("fp32", 12, 12, 64),
    },
    "solutions.common.decoder.attend_many:attend_many_kernel": {
        "bf16, 4 heads of 128": attention_of_many("bf16", attend_many.HALVES, 32, 8, 128),
        "fp16, 7 heads of 64, a window": attention_of_many(
            "fp16", attend_many.HALVES, 14, 2, 64, 1024
        ),
        "bf16, 4 heads of 128, a short step": attention_of_many(
            "bf16", attend_many.SHORT, 32, 8, 128
        ),
        "bf16, 16 heads of 256": attention_of_many("bf16", attend_many.WIDE, 16, 1, 256, 512),
        "fp32, 1 head of 128": attention_of_many("fp32", attend_many.WIDE, 12, 12, 128),
    },
    "solutions.common.decoder.add_rms_norm:add_rms_norm_kernel": {
        "bf16, 4096": residual_norms("bf16", 4096),
        "bf16, 4096, without an update": residual_norms("bf16", 4096, has_update=False),
        "fp16, 768": residual_norms("fp16", 768),
        "fp32, 32768": residual_norms("fp32", add_rms_norm.LARGEST),
    },
    "solutions.common.decoder.silu_and_mul:silu_and_mul_kernel": {
        "bf16, 14336": mlp_gates("bf16", 14_336),
        "fp16, 100": mlp_gates("fp16", 100),
        "bf16, 10240, GELU": mlp_gates("bf16", 10_240, True),
        "fp32, 3072": mlp_gates("fp32", 3072),
    },
    "solutions.common.decoder.few_rows:few_rows_kernel": {
        "bf16": products_of_few_rows("bf16"),
        "fp16": products_of_few_rows("fp16"),
        "bf16, large": products_of_few_rows("bf16", few_rows.LARGER),
        "bf16, many rows, gates": products_of_few_rows("bf16", few_rows.MANY_ROWS, True),
        "bf16, gates": products_of_few_rows("bf16", gates=True),
    },
    "solutions.flex_graph.measure.step_limits:read_once_kernel": {"as it is": reading()},
}
VARIES = {
    **{
        f"solutions.flex_graph.tables.{kernel}": ("num_tokens max_pages", "")
        for kernel in (
            "request_tables:request_tables_kernel",
            "group_pages:needed_pages_kernel",
            "group_pages:packed_pages_kernel",
        )
    },
    "solutions.common.decoder.rotate_and_cache:rotate_and_cache_kernel": (
        "num_rows",
        "positions slots",
    ),
    "solutions.common.decoder.attend:attend_kernel": ("", "slots doc_ids"),
    "solutions.common.decoder.attend_many:attend_many_kernel": ("num_tokens", ""),
    "solutions.common.decoder.add_rms_norm:add_rms_norm_kernel": ("num_rows", ""),
    "solutions.common.decoder.silu_and_mul:silu_and_mul_kernel": ("num_rows", ""),
    "solutions.common.decoder.few_rows:few_rows_kernel": ("num_tokens", ""),
}
