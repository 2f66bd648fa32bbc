"""The launches of the kernels of `solutions.flex_graph`."""

from functools import partial

from solutions.common.decoder import add_rms_norm, few_rows, rotate_and_cache, silu_and_mul
from solutions.flex_graph.measure import step_limits
from solutions.flex_graph.tables import device_build

from .arguments import pointers


def request_tables(page: int, *, shared_memory: int) -> dict:
    """Describes a launch of the kernel that makes the tables of a paged mask."""
    tables = (
        "query_start_loc seq_lens block_table doc_ids decode_offset physical_to_logical page_users"
        " known_pages num_known_pages"
    )
    sizes = ("num_seqs", "num_tokens", "pages_per_seq", "max_pages", "num_blocks")
    return {
        "arguments": pointers("i32", tables) | dict.fromkeys(sizes, "i32"),
        "aligned": tables.split(),
        "constants": {"PAGE": page, "TILE": device_build.TILE},
        "options": {"num_warps": device_build.NUM_WARPS},
    }


def group_pages(
    written: str,
    looked_up: str,
    page: int,
    causal: bool,
    window: int,
    group: int = 16,
    *,
    shared_memory: int,
) -> dict:
    """Describes a launch of one of the kernels that list the pages of each group of tokens."""
    tables = "query_start_loc seq_lens block_table doc_ids decode_offset"
    arguments = pointers("i32", f"{written} num_needed {tables} {looked_up}") | {"needs": "*i8"}
    sizes = ["num_seqs", "num_tokens", "pages_per_seq", "max_pages"]
    sizes += ["num_blocks"] if looked_up else []
    return {
        "arguments": arguments | dict.fromkeys(sizes, "i32"),
        "aligned": [*arguments],
        "constants": {
            "GROUP": group,
            "PAGE": page,
            "CAUSAL": causal,
            "WINDOW": window,
            "TILE": device_build.TILE,
        },
        "options": {"num_warps": device_build.NUM_WARPS},
    }


def rotations(
    dtype: str,
    num_heads: int,
    num_kv_heads: int,
    size: int,
    norms: str = "",
    *,
    shared_memory: int,
) -> dict:
    """Describes a launch of the kernel that rotates queries and keys, and writes keys and values to
    the KV cache."""
    tensors = pointers(dtype, "qkv key_cache value_cache") | {"cos_sin": "*fp32"}
    tensors |= pointers(norms or "fp32", "query_norm key_norm")
    block = 1 << (size // 2 - 1).bit_length()
    return {
        "arguments": tensors
        | pointers("i32", "positions slots")
        | {"eps": "fp32"}
        | dict.fromkeys(("num_rows", "qkv_stride"), "i32"),
        "aligned": [*tensors, "qkv_stride"],
        "constants": {
            "QUERY_HEADS": num_heads,
            "KV_HEADS": num_kv_heads,
            "SIZE": size,
            "HAS_NORMS": bool(norms),
            "ROWS": rotate_and_cache.TILE // block,
            "BLOCK": block,
        },
        "options": {"num_warps": 4},
    }


def residual_norms(dtype: str, size: int, *, has_update: bool = True, shared_memory: int) -> dict:
    """Describes a launch of the kernel that adds the update to the residual and normalises the
    sum."""
    tensors = pointers(dtype, "normed residual update weight")
    block = 1 << (size - 1).bit_length()
    return {
        "arguments": tensors | {"eps": "fp32", "num_rows": "i32"},
        "aligned": [*tensors],
        "constants": {
            "SIZE": size,
            "HAS_UPDATE": has_update,
            "ROWS": max(1, add_rms_norm.TILE // block),
            "BLOCK": block,
        },
        "options": {"num_warps": 16 if block > add_rms_norm.TILE else 8},
    }


def products_of_few_rows(dtype: str, *, shared_memory: int) -> dict:
    """Describes a launch of the kernel that multiplies few tokens by a large weight."""
    tensors = pointers(dtype, "output inputs weight")
    return {
        "arguments": tensors | dict.fromkeys(("num_tokens", "rows", "columns"), "i32"),
        "aligned": [*tensors, "rows", "columns"],
        "constants": {
            "TOKENS": few_rows.MOST_ROWS,
            "ROWS": few_rows.ROWS,
            "COLUMNS": few_rows.COLUMNS,
            "UPCAST": False,
        },
        "options": {"num_warps": few_rows.WARPS, "num_stages": few_rows.STAGES},
        "tensor_cores": True,
    }


def mlp_gates(dtype: str, size: int, gelu: bool = False, *, shared_memory: int) -> dict:
    """Describes a launch of the kernel that computes the gated activation of an MLP."""
    tensors = pointers(dtype, "output gate_up")
    block = min(1 << (size - 1).bit_length(), silu_and_mul.TILE)
    return {
        "arguments": tensors | {"num_rows": "i32"},
        "aligned": [*tensors],
        "constants": {
            "SIZE": size,
            "GELU": gelu,
            "ROWS": silu_and_mul.TILE // block,
            "BLOCK": block,
        },
        "options": {"num_warps": 4},
    }


def reading(*, shared_memory: int) -> dict:
    """Describes a launch of the kernel that reads a large buffer once, as a step reads its
    weights."""
    return {
        "arguments": pointers("i32", "numbers seen") | {"num_blocks": "i32"},
        "aligned": ["numbers", "seen"],
        "constants": {"BLOCK": step_limits.BLOCK},
        "options": {},
    }


needed_pages = partial(group_pages, "", "physical_to_logical page_users")


packed_pages = partial(group_pages, "kv_num_blocks kv_indices", "")


LAUNCHES = {
    "solutions.flex_graph.tables.request_tables:request_tables_kernel": {
        "pages of 16": partial(request_tables, 16),
    },
    "solutions.flex_graph.tables.group_pages:needed_pages_kernel": {
        "causal": partial(needed_pages, 16, True, 0),
        "bidirectional, a window": partial(needed_pages, 128, False, 4096),
        "each token alone": partial(needed_pages, 16, True, 0, 1),
    },
    "solutions.flex_graph.tables.group_pages:packed_pages_kernel": {
        "causal": partial(packed_pages, 16, True, 0),
        "bidirectional, a window": partial(packed_pages, 128, False, 4096),
        "each token alone": partial(packed_pages, 16, True, 0, 1),
    },
    "solutions.common.decoder.rotate_and_cache:rotate_and_cache_kernel": {
        "bf16, heads of 128": partial(rotations, "bf16", 32, 8, 128),
        "fp16, heads of 80": partial(rotations, "fp16", 5, 1, 80),
        "fp32, heads of 64": partial(rotations, "fp32", 12, 12, 64),
        "bf16, norms": partial(rotations, "bf16", 16, 8, 128, "bf16"),
        "bf16, norms in fp32": partial(rotations, "bf16", 4, 1, 256, "fp32"),
    },
    "solutions.common.decoder.add_rms_norm:add_rms_norm_kernel": {
        "bf16, 4096": partial(residual_norms, "bf16", 4096),
        "bf16, 4096, without an update": partial(residual_norms, "bf16", 4096, has_update=False),
        "fp16, 768": partial(residual_norms, "fp16", 768),
        "fp32, 32768": partial(residual_norms, "fp32", add_rms_norm.LARGEST),
    },
    "solutions.common.decoder.silu_and_mul:silu_and_mul_kernel": {
        "bf16, 14336": partial(mlp_gates, "bf16", 14_336),
        "fp16, 100": partial(mlp_gates, "fp16", 100),
        "bf16, 10240, GELU": partial(mlp_gates, "bf16", 10_240, True),
        "fp32, 3072": partial(mlp_gates, "fp32", 3072),
    },
    "solutions.common.decoder.few_rows:few_rows_kernel": {
        "bf16": partial(products_of_few_rows, "bf16"),
        "fp16": partial(products_of_few_rows, "fp16"),
    },
    "solutions.flex_graph.measure.step_limits:read_once_kernel": {"as it is": reading},
}
VARIES = {
    **{
        f"solutions.flex_graph.tables.{kernel}": (["num_tokens", "max_pages"], [])
        for kernel in (
            "request_tables:request_tables_kernel",
            "group_pages:needed_pages_kernel",
            "group_pages:packed_pages_kernel",
        )
    },
    "solutions.common.decoder.rotate_and_cache:rotate_and_cache_kernel": (
        ["num_rows"],
        ["positions", "slots"],
    ),
    "solutions.common.decoder.add_rms_norm:add_rms_norm_kernel": (["num_rows"], []),
    "solutions.common.decoder.silu_and_mul:silu_and_mul_kernel": (["num_rows"], []),
    "solutions.common.decoder.few_rows:few_rows_kernel": (["num_tokens"], []),
}
