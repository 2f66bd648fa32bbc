"""Every Triton kernel of `solutions` compiles for the GPUs that matter, without one of them.

In a process of its own: here, without a GPU, the kernels are there to be interpreted.
"""

import ast
import json
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch

from solutions.flex_graph import (
    add_rms_norm,
    device_build,
    rotate_and_cache,
    silu_and_mul,
    step_limits,
)
from solutions.gdn import device_tables, gated_norm, gating, recurrent
from solutions.gdn.chunk_batch import BLOCK_V as BLOCK_V_OF_STATES
from solutions.gdn.chunk_launches import MOST_REGISTERS
from solutions.gdn.chunk_tables import FLA_CHUNK_SIZE
from solutions.gdn.single_ops import state_pass as single_state_pass
from solutions.offload import UPSTREAM, Launch, copy_pieces, upstream_scheme
from solutions.offload.descriptors import WORD
from solutions.pinned_h2d.attention import choose_tile
from solutions.sync_free.causal_conv1d import BLOCK_DIM
from solutions.sync_free.conv_metadata import CHUNK_TOKENS
from solutions.sync_free.logprobs import IDS, ROWS, TILE
from solutions.sync_free.ngram import SCATTER_BLOCK
from solutions.sync_free.penalties import BLOCK

ROOT = Path(__file__).resolve().parent.parent
SHARED_MEMORY = {80: 163 * 1024, 90: 227 * 1024}
"""Bytes that one program may use, by architecture."""
ARCHITECTURES = tuple(SHARED_MEMORY)
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def kernels_in_source() -> set[str]:
    """`solutions.system.module:kernel` of every kernel: what triton.jit decorates and the host
    launches, and not what kernels call."""
    found = set()
    for path in (ROOT / "solutions").rglob("*.py"):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.FunctionDef)
                and node.name.endswith("_kernel")
                and any("triton.jit" in ast.unparse(decorator) for decorator in node.decorator_list)
            ):
                found.add(f"{module}:{node.name}")
    return found


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
    """One way to launch the attention kernel: types of its arguments, its constants, its tile, and
    whether its products are for the tensor cores. (A kernel without products leaves that out.)"""
    tile = choose_tile(DTYPES[dtype], head_size, group, max_query_len, shared_memory)
    tensors = dict.fromkeys(("output", "query", "key_cache", "value_cache"), f"*{dtype}")
    tables = dict.fromkeys(("block_table", "seq_lens", "query_start_loc", "ranges"), "*i32")
    strides = ("output_stride", "query_stride", "cache_block_stride", "cache_slot_stride")
    return {
        "arguments": tensors
        | tables
        | {"max_ranges": "i32", "scale": "fp32"}
        | dict.fromkeys((*strides, "block_table_stride"), "i32"),
        "aligned": [*tensors, *strides],
        "constants": {
            "GROUP": group,
            "HEAD_SIZE": head_size,
            "HEAD_PADDED": 1 << (head_size - 1).bit_length(),
            "PAGE": 16,
            "WINDOW": window,
            "CLAMP_TO_WINDOW": clamp,
            "HAS_RANGES": ranges,
            "UPCAST": False,
            "BLOCK_M": tile.block_m,
            "BLOCK_N": tile.block_n,
        },
        "options": {"num_warps": tile.num_warps, "num_stages": tile.num_stages},
        "tensor_cores": dtype != "fp32",
    }


def own_column(columns: int, *, shared_memory: int) -> dict:
    """The kernel that starts an exchange between `columns` data-parallel ranks."""
    numbers = ("original_tokens", "padded_tokens", "should_ubatch", "cudagraph_mode")
    return {
        "arguments": {"state": "*i32"} | dict.fromkeys(("rank", "size", *numbers), "i32"),
        "aligned": ["state"],
        "constants": {"COLUMNS": columns},
        "options": {"num_warps": 1},
    }


def vocabulary_block(dtype: str, ids: str, vocab_size: int, *, shared_memory: int) -> dict:
    """The kernel that reads all logits once; a program has one row, or several short ones."""
    partials = {"highest": "*fp32", "total": "*fp32", "reaching": "*i32"}
    sizes = ("num_rows", "vocab_size", "num_blocks", "logits_stride", "ids_stride")
    block = min(TILE, 1 << (vocab_size - 1).bit_length())
    return {
        "arguments": partials | {"logits": f"*{dtype}", "ids": ids} | dict.fromkeys(sizes, "i32"),
        "aligned": [*partials, "logits", "vocab_size", "logits_stride"],
        "constants": {"ROWS": TILE // block, "BLOCK": block},
        "options": {"num_warps": 8},
    }


def token_logprobs(
    dtype: str, ids: str, vocab_size: int, *, has_counts: bool = True, shared_memory: int
) -> dict:
    """The kernel that looks up a few tokens' log-probabilities."""
    results = {"logprobs": "*fp32", "ranks": "*i64"}
    partials = {"highest": "*fp32", "total": "*fp32", "reaching": "*i32"}
    sizes = ("num_rows", "width", "vocab_size", "num_blocks", "logits_stride", "ids_stride")
    tensors = results | {"logits": f"*{dtype}", "ids": ids, "counts": "*i32"} | partials
    blocks = -(-vocab_size // TILE)
    return {
        "arguments": tensors | dict.fromkeys(sizes, "i32"),
        "aligned": [*results, *partials, "logits", "vocab_size", "logits_stride"],
        "constants": {
            "HAS_COUNTS": has_counts,
            "ROWS": ROWS,
            "IDS": IDS,
            "BLOCKS": 1 << (blocks - 1).bit_length(),
        },
        "options": {"num_warps": 4},
    }


def bincount(*, shared_memory: int) -> dict:
    """The kernel that counts the tokens of new requests."""
    tables = dict.fromkeys(("prompt_bin_mask", "output_bin_counts", "token_ids"), "*i32")
    lengths = dict.fromkeys(("prompt_lens", "prefill_lens"), "*i32")
    sizes = ("token_stride", "num_words", "vocab_size")
    return {
        "arguments": tables | lengths | {"rows": "*i64"} | dict.fromkeys(sizes, "i32"),
        "aligned": [*tables, *sizes],
        "constants": {"BLOCK": BLOCK},
        "options": {"num_warps": 4},
    }


def convolution(dtype: str, width: int, *, shared_memory: int) -> dict:
    """The causal convolution, with the states of any layout."""
    tensors = ("output", "x", "weight", "bias", "conv_states")
    tables = ("query_start_loc", "cache_indices", "batch_of_chunk", "chunk_offset")
    sizes = ("num_slots", "dim", "x_stride", "slot_stride", "channel_stride", "tap_stride")
    return {
        "arguments": dict.fromkeys(tensors, f"*{dtype}")
        | dict.fromkeys(tables, "*i32")
        | {"has_initial_state": "*i1"}
        | dict.fromkeys(sizes, "i32"),
        "aligned": [*tensors, "dim", "x_stride", "slot_stride"],
        "constants": {
            "HAS_BIAS": True,
            "SILU": True,
            "WIDTH": width,
            "CHUNK": CHUNK_TOKENS,
            "BLOCK_DIM": BLOCK_DIM,
        },
        "options": {"num_warps": 4},
    }


def scatter_rows(*, shared_memory: int) -> dict:
    """The kernel that writes ids of many rows, each to its place."""
    rows = dict.fromkeys(("written_rows", "starts"), "*i64")
    sizes = ("table_stride", "num_written", "num_ids", "bisections")
    return {
        "arguments": rows | dict.fromkeys(("table", "ids"), "*i32") | dict.fromkeys(sizes, "i32"),
        "aligned": ["table", "table_stride"],
        "constants": {"BLOCK": SCATTER_BLOCK},
        "options": {"num_warps": 4},
    }


def chunk_tables(*, shared_memory: int) -> dict:
    """The scan kernel that makes both chunk tables."""
    tables = {"chunk_indices": "*i32", "chunk_offsets": "*i64", "cu_seqlens": "*i32"}
    return {
        "arguments": tables | dict.fromkeys(("num_rows", "num_seqs", "bisections"), "i32"),
        "aligned": [],
        "constants": {"CHUNK": 64, "TILE": device_tables.TILE, "BLOCK": device_tables.BLOCK},
        "options": {"num_warps": 4},
    }


def chunk_cumsum(chunk_size: int, num_heads: int, *, shared_memory: int) -> dict:
    """The running sums of one chunk."""
    tensors = {"out": "*fp32", "g": "*fp32"}
    return {
        "arguments": tensors | dict.fromkeys(("first", "length", "num_heads"), "i32"),
        "aligned": [*tensors],
        "constants": {"CHUNK": chunk_size, "HEADS": 1 << (num_heads - 1).bit_length()},
        "options": {"num_warps": 4},
    }


def local_cumsum(chunk_size: int, num_heads: int, *, shared_memory: int) -> dict:
    """The running sums of all chunks."""
    tensors = {"out": "*fp32", "g": "*fp32"}
    tables = dict.fromkeys(("cu_seqlens", "chunk_indices"), "*i32")
    return {
        "arguments": tensors | tables | {"num_heads": "i32"},
        "aligned": [*tensors],
        "constants": {"CHUNK": chunk_size, "HEADS": 1 << (num_heads - 1).bit_length()},
        "options": {"num_warps": 4},
    }


def gated_delta_steps(
    dtype: str,
    key_size: int,
    value_size: int,
    *,
    states: bool = True,
    starts: bool = False,
    speculative: bool = False,
    shared_memory: int,
) -> dict:
    """The gated delta rule token by token: a decode step, or one with drafted tokens."""
    tokens = dict.fromkeys(("o", "q", "k", "v"), f"*{dtype}")
    gates = {"g": "*fp32", "beta": "*fp32", "states": "*fp32" if states else f"*{dtype}"}
    tables = dict.fromkeys(("cu_seqlens", "state_indices", "num_accepted_tokens"), "*i32")
    sizes = ("num_tokens", "num_slots", "num_columns", "index_stride")
    strides = ("q_stride", "k_stride", "v_stride", "g_stride", "beta_stride", "slot_stride")
    return {
        "arguments": tokens
        | gates
        | tables
        | {"scale": "fp32"}
        | dict.fromkeys((*sizes, *strides), "i32"),
        "aligned": [*tokens, "states", *strides],
        "constants": {
            "HV": 32,
            "GROUP": 2,
            "K": key_size,
            "V": value_size,
            "HAS_STATES": states,
            "HAS_STARTS": starts or speculative,
            "HAS_INDICES": states,
            "SPECULATIVE": speculative,
            "NORMALIZE": True,
            "BLOCK_K": 1 << (key_size - 1).bit_length(),
            "BLOCK_V": min(recurrent.BLOCK_V, 1 << (value_size - 1).bit_length()),
        },
        "options": {"num_warps": 4},
    }


def convolution_update(
    dtype: str, width: int, *, speculative: bool = False, shared_memory: int
) -> dict:
    """The convolution of a decode step, or of one with drafted tokens."""
    tensors = ("output", "x", "weight", "bias", "conv_states")
    tables = ("state_indices", "query_start_loc", "num_accepted_tokens")
    sizes = ("num_tokens", "num_slots", "num_columns", "index_stride", "dim")
    strides = ("x_stride", "slot_stride", "channel_stride", "tap_stride")
    return {
        "arguments": dict.fromkeys(tensors, f"*{dtype}")
        | dict.fromkeys(tables, "*i32")
        | dict.fromkeys((*sizes, *strides), "i32"),
        "aligned": [*tensors, "dim", "x_stride", "slot_stride"],
        "constants": {
            "HAS_BIAS": True,
            "HAS_STARTS": speculative,
            "SPECULATIVE": speculative,
            "SILU": True,
            "WIDTH": width,
            "BLOCK_DIM": BLOCK_DIM,
        },
        "options": {"num_warps": 4},
    }


def gates(dtype: str, *, shared_memory: int) -> dict:
    """The kernel that makes both gates of the delta rule."""
    projected = dict.fromkeys(("a", "b", "dt_bias"), f"*{dtype}")
    return {
        "arguments": dict.fromkeys(("g", "beta", "A_log"), "*fp32")
        | projected
        | dict.fromkeys(("num_gates", "a_stride", "b_stride"), "i32"),
        "aligned": ["g", "beta", "A_log", "dt_bias", "a_stride", "b_stride"],
        "constants": {"HV": 32, "LINEAR_FROM": gating.LINEAR_FROM, "BLOCK": gating.BLOCK},
        "options": {"num_warps": 4},
    }


def gated_norms(dtype: str, size: int, *, shared_memory: int) -> dict:
    """The norm with an output gate: a program has a few heads."""
    tensors = ("output", "x", "z", "weight")
    block = 1 << (size - 1).bit_length()
    return {
        "arguments": dict.fromkeys(tensors, f"*{dtype}")
        | {"eps": "fp32"}
        | dict.fromkeys(("num_rows", "x_stride", "z_stride"), "i32"),
        "aligned": [*tensors, "x_stride", "z_stride"],
        "constants": {"HEADS": 32, "SIZE": size, "ROWS": gated_norm.TILE // block, "BLOCK": block},
        "options": {"num_warps": 4},
    }


def pointers(kind: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), f"*{kind}")


def chunk_launch(
    dtype: str,
    tensors: dict[str, str],
    numbers: str,
    varying: str,
    constants: dict,
    **options: int,
) -> dict:
    """A launch of a kernel of the chunked delta rule, with products of `dtype`. All tensors and
    numbers are aligned but the `varying` ones."""
    sizes = {name: "fp32" if name == "scale" else "i32" for name in numbers.split()}
    shared = {
        "GROUP": 2,
        "CHUNK": FLA_CHUNK_SIZE,
        "PRECISION": "ieee" if dtype == "fp32" else "tf32",
        "UPCAST": False,
    }
    return {
        "arguments": tensors | sizes,
        "aligned": [name for name in (*tensors, *sizes) if name not in varying.split()],
        "constants": shared | constants,
        "options": {"num_warps": 4, **options},
        "tensor_cores": dtype != "fp32",
    }


def chunk_solve(dtype: str, key_size: int, *, shared_memory: int) -> dict:
    """What the tokens of a chunk owe one another."""
    vectors = "decays key_norms read_scales write_scales"
    launch = chunk_launch(
        dtype,
        pointers(dtype, "solved k beta")
        | pointers("fp32", f"{vectors} chunk_decays g")
        | pointers("i32", "cu_seqlens chunk_indices"),
        "num_tokens k_stride g_stride beta_stride",
        f"{vectors} g beta cu_seqlens chunk_indices num_tokens",
        {"NORMALIZE": True, "K": key_size, "KIND": "float32" if dtype == "fp32" else "float16"},
        maxnreg=MOST_REGISTERS,
    )
    return launch | {"tensor_cores": True}


def state_pass(
    dtype: str,
    key_size: int,
    value_size: int,
    stages: int,
    *,
    states: bool = True,
    shared_memory: int,
) -> dict:
    """The states go through the chunks of their sequences: in a pool, or from zeros."""
    scales = "read_scales write_scales"
    constants = dict.fromkeys(("HAS_INITIAL", "HAS_FLAGS", "IN_POOL", "STORE_FINAL"), states)
    return chunk_launch(
        dtype,
        pointers(dtype, "states written k v solved")
        | pointers("fp32" if states else dtype, "final_state initial_state")
        | pointers("fp32", f"{scales} chunk_decays")
        | pointers("i32", "state_indices cu_seqlens")
        | pointers("i64", "chunk_offsets")
        | pointers("i1" if states else "i32", "has_initial_state"),
        "num_tokens num_chunks num_slots k_stride v_stride initial_stride final_stride",
        f"{scales} state_indices cu_seqlens chunk_offsets has_initial_state"
        " num_tokens num_chunks num_slots",
        constants
        | {
            "K": key_size,
            "V": value_size,
            "BLOCK_V": min(BLOCK_V_OF_STATES[dtype != "fp32"], value_size),
            "STAGES": stages,
        },
    )


def chunk_output(
    dtype: str, key_size: int, value_size: int, *, normalize: bool = True, shared_memory: int
) -> dict:
    """What the queries read, in the rule and as a single op."""
    return chunk_launch(
        dtype,
        pointers(dtype, "o q k states written")
        | pointers("fp32", "decays key_norms")
        | pointers("i32", "cu_seqlens chunk_indices"),
        "num_tokens scale q_stride k_stride",
        "decays key_norms cu_seqlens chunk_indices num_tokens scale",
        {
            "NORMALIZE": normalize,
            "K": key_size,
            "V": value_size,
            "BLOCK_V": min(BLOCK_V_OF_STATES[dtype != "fp32"], value_size),
        },
        num_stages=1,
    )


def scaled_dot_kkt(dtype: str, key_size: int, *, shared_memory: int) -> dict:
    """The products of the keys of a chunk."""
    return chunk_launch(
        dtype,
        pointers("fp32", "A g")
        | pointers(dtype, "k beta")
        | pointers("i32", "cu_seqlens chunk_indices"),
        "k_stride beta_stride",
        "g beta cu_seqlens chunk_indices",
        {"K": key_size},
    )


def solve_tril(dtype: str, chunk_size: int, *, shared_memory: int) -> dict:
    """The inverse of a chunk's triangle."""
    launch = chunk_launch(
        dtype,
        pointers(dtype, "inverse")
        | pointers("fp32", "A")
        | pointers("i32", "cu_seqlens chunk_indices"),
        "",
        "cu_seqlens chunk_indices",
        {"CHUNK": chunk_size, "KIND": "float32" if dtype == "fp32" else "float16"},
    )
    del launch["constants"]["GROUP"], launch["constants"]["PRECISION"]
    return launch | {"tensor_cores": True}


def w_u(dtype: str, size: int, *, decays: bool, shared_memory: int) -> dict:
    """What the tokens of a chunk write, or correct, but for what they find."""
    return chunk_launch(
        dtype,
        pointers(dtype, "out x beta inverse")
        | pointers("fp32", "g")
        | pointers("i32", "cu_seqlens chunk_indices"),
        "x_stride beta_stride",
        "beta g cu_seqlens chunk_indices",
        {"SIZE": size, "DECAYS": decays},
    )


def chunk_states(dtype: str, key_size: int, value_size: int, *, shared_memory: int) -> dict:
    """The single op in which the states go through the chunks."""
    return chunk_launch(
        dtype,
        pointers(dtype, "h v_new k w u")
        | pointers("fp32", "final_state g initial_state")
        | pointers("i32", "cu_seqlens")
        | pointers("i64", "chunk_offsets"),
        "k_stride initial_stride",
        "g cu_seqlens chunk_offsets",
        {
            "HAS_INITIAL": True,
            "STORE_FINAL": True,
            "K": key_size,
            "V": value_size,
            "BLOCK_V": min(single_state_pass.BLOCK_V, value_size),
        },
        num_stages=single_state_pass.STAGES,
    )


def request_tables(page: int, *, shared_memory: int) -> dict:
    """The kernel that makes what a paged mask looks up."""
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
    written: str, looked_up: str, page: int, causal: bool, window: int, *, shared_memory: int
) -> dict:
    """The kernels that list the pages of groups of tokens."""
    tables = "query_start_loc seq_lens block_table doc_ids decode_offset"
    arguments = pointers("i32", f"{written} num_needed {tables} {looked_up}") | {"needs": "*i8"}
    sizes = ["num_seqs", "num_tokens", "pages_per_seq", "max_pages"]
    sizes += ["num_blocks"] if looked_up else []
    return {
        "arguments": arguments | dict.fromkeys(sizes, "i32"),
        "aligned": [*arguments],
        "constants": {
            "GROUP": 16,
            "PAGE": page,
            "CAUSAL": causal,
            "WINDOW": window,
            "TILE": device_build.TILE,
        },
        "options": {"num_warps": device_build.NUM_WARPS},
    }


def rotations(
    dtype: str, num_heads: int, num_kv_heads: int, size: int, *, shared_memory: int
) -> dict:
    """The kernel that turns queries and keys, and writes to the KV cache."""
    tensors = pointers(dtype, "qkv key_cache value_cache") | {"cos_sin": "*fp32"}
    block = 1 << (size // 2 - 1).bit_length()
    return {
        "arguments": tensors
        | pointers("i32", "positions slots")
        | dict.fromkeys(("num_rows", "qkv_stride"), "i32"),
        "aligned": [*tensors, "qkv_stride"],
        "constants": {
            "QUERY_HEADS": num_heads,
            "KV_HEADS": num_kv_heads,
            "SIZE": size,
            "ROWS": rotate_and_cache.TILE // block,
            "BLOCK": block,
        },
        "options": {"num_warps": 4},
    }


def residual_norms(dtype: str, size: int, *, has_update: bool = True, shared_memory: int) -> dict:
    """The norm that takes a residual sum first."""
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


def mlp_gates(dtype: str, size: int, *, shared_memory: int) -> dict:
    """The gates of an MLP."""
    tensors = pointers(dtype, "output gate_up")
    block = min(1 << (size - 1).bit_length(), silu_and_mul.TILE)
    return {
        "arguments": tensors | {"num_rows": "i32"},
        "aligned": [*tensors],
        "constants": {"SIZE": size, "ROWS": silu_and_mul.TILE // block, "BLOCK": block},
        "options": {"num_warps": 4},
    }


def reading(*, shared_memory: int) -> dict:
    """Of all weights."""
    return {
        "arguments": pointers("i32", "numbers seen") | {"num_blocks": "i32"},
        "aligned": ["numbers", "seen"],
        "constants": {"BLOCK": step_limits.BLOCK},
        "options": {},
    }


def swapped_chunks(how: Launch, *, vector: bool, shared_memory: int) -> dict:
    """Lists of pieces anywhere in memory, in one launch over all chunks."""
    return {
        "arguments": descriptor_columns()
        | {"num_jobs": "i32", "stride": "i32", "chunks_per_job": "i32"},
        "aligned": [],
        "constants": {
            "WORDS": how.bytes_per_chunk // WORD,
            "VECTOR": vector,
            "STAGES": how.num_stages,
        },
        "options": {"num_warps": how.num_warps},
    }


def swapped_jobs(bytes_per_chunk: int, *, shared_memory: int) -> dict:
    """The same lists, a piece for a program."""
    return {
        "arguments": descriptor_columns() | {"num_jobs": "i32"},
        "aligned": [],
        "constants": {"WORDS": bytes_per_chunk // WORD},
        "options": {"num_warps": upstream_scheme.NUM_WARPS},
    }


def copied_piece(words: int, *, shared_memory: int) -> dict:
    """One piece, which the host knows."""
    return {
        "arguments": {"source": "i64", "target": "i64", "num_words": "i32"},
        "aligned": [],
        "constants": {"WORDS": words},
        "options": {"num_warps": 4},
    }


def copied_pieces(words: int, *, shared_memory: int) -> dict:
    """Lists of pieces in one launch, without vectors or stages."""
    counts = dict.fromkeys(("num_pieces", "chunks_per_piece"), "i32")
    return {
        "arguments": descriptor_columns() | counts,
        "aligned": [],
        "constants": {"WORDS": words},
        "options": {"num_warps": 4},
    }


def descriptor_columns() -> dict[str, str]:
    return pointers("i64", "src_addrs dst_addrs sizes")


needed_pages = partial(group_pages, "", "physical_to_logical page_users")
packed_pages = partial(group_pages, "kv_num_blocks kv_indices", "")


LAUNCHES = {
    "solutions.flex_graph.request_tables_kernel:request_tables_kernel": {
        "pages of 16": partial(request_tables, 16),
    },
    "solutions.flex_graph.group_pages_kernel:needed_pages_kernel": {
        "causal": partial(needed_pages, 16, True, 0),
        "bidirectional, a window": partial(needed_pages, 128, False, 4096),
    },
    "solutions.flex_graph.group_pages_kernel:packed_pages_kernel": {
        "causal": partial(packed_pages, 16, True, 0),
        "bidirectional, a window": partial(packed_pages, 128, False, 4096),
    },
    "solutions.flex_graph.rotate_and_cache_kernel:rotate_and_cache_kernel": {
        "bf16, heads of 128": partial(rotations, "bf16", 32, 8, 128),
        "fp16, heads of 80": partial(rotations, "fp16", 5, 1, 80),
        "fp32, heads of 64": partial(rotations, "fp32", 12, 12, 64),
    },
    "solutions.flex_graph.add_rms_norm_kernel:add_rms_norm_kernel": {
        "bf16, 4096": partial(residual_norms, "bf16", 4096),
        "bf16, 4096, without an update": partial(residual_norms, "bf16", 4096, has_update=False),
        "fp16, 768": partial(residual_norms, "fp16", 768),
        "fp32, 32768": partial(residual_norms, "fp32", add_rms_norm.LARGEST),
    },
    "solutions.flex_graph.silu_and_mul_kernel:silu_and_mul_kernel": {
        "bf16, 14336": partial(mlp_gates, "bf16", 14_336),
        "fp16, 100": partial(mlp_gates, "fp16", 100),
        "fp32, 3072": partial(mlp_gates, "fp32", 3072),
    },
    "solutions.flex_graph.read_once_kernel:read_once_kernel": {"as it is": reading},
    "solutions.offload.swap_blocks_kernel:_swap_blocks_kernel": {
        "4096-byte chunks": partial(swapped_chunks, Launch(bytes_per_chunk=4096), vector=False),
        "4096-byte chunks, vectors": partial(
            swapped_chunks, Launch(bytes_per_chunk=4096), vector=True
        ),
        "8192-byte chunks, not pipelined": partial(
            swapped_chunks, Launch(bytes_per_chunk=8192, num_stages=1), vector=True
        ),
        "one word": partial(swapped_chunks, Launch(bytes_per_chunk=8), vector=False),
    },
    "solutions.offload.job_kernel:swap_jobs_kernel": {
        "4 KiB pieces": partial(swapped_jobs, 4096),
        "upstream's largest chunks": partial(swapped_jobs, UPSTREAM.bytes_per_chunk),
    },
    "solutions.offload.copy_pieces_kernel:copy_pieces_kernel": {
        "4096-byte chunks": partial(copied_pieces, copy_pieces.WORDS_PER_CHUNK),
    },
    "solutions.offload.first_attempts.copy_piece_kernel:copy_piece_kernel": {
        "a word": partial(copied_piece, 1),
        "a page": partial(copied_piece, 512),
    },
    "solutions.pinned_h2d.attention_kernel:prefix_attention_kernel": {
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
    "solutions.sync_free.logprobs_kernel:vocabulary_block_kernel": {
        "fp32, 128k": partial(vocabulary_block, "fp32", "*i32", 128_256),
        "bf16, 128k, sampled ids": partial(vocabulary_block, "bf16", "*i64", 128_256),
        "fp16, many short rows": partial(vocabulary_block, "fp16", "*i32", 512),
    },
    "solutions.sync_free.logprobs_kernel:token_logprobs_kernel": {
        "fp32, 128k": partial(token_logprobs, "fp32", "*i32", 128_256),
        "bf16, 128k, all ids": partial(token_logprobs, "bf16", "*i64", 128_256, has_counts=False),
        "fp16, one block": partial(token_logprobs, "fp16", "*i32", 512),
    },
    "solutions.sync_free.penalties_kernel:bincount_kernel": {"as it is": bincount},
    "solutions.sync_free.ngram_kernel:scatter_rows_kernel": {"as it is": scatter_rows},
    "solutions.sync_free.data_parallel_kernel:own_column_kernel": {
        "one rank": partial(own_column, 1),
        "8 ranks": partial(own_column, 8),
    },
    "solutions.sync_free.causal_conv1d_kernel:causal_conv1d_kernel": {
        "bf16, width 4": partial(convolution, "bf16", 4),
        "fp16, width 3": partial(convolution, "fp16", 3),
        "fp32, width 2": partial(convolution, "fp32", 2),
    },
    "solutions.gdn.device_tables_kernel:chunk_tables_kernel": {"as it is": chunk_tables},
    "solutions.gdn.first_attempts.chunk_cumsum_kernel:chunk_cumsum_kernel": {
        "3 heads": partial(chunk_cumsum, 16, 3),
    },
    "solutions.gdn.local_cumsum_kernel:local_cumsum_kernel": {
        "32 heads": partial(local_cumsum, 64, 32),
        "3 heads": partial(local_cumsum, 16, 3),
    },
    "solutions.gdn.recurrent_kernel:recurrent_kernel": {
        "bf16, decode": partial(gated_delta_steps, "bf16", 128, 128),
        "bf16, drafts": partial(gated_delta_steps, "bf16", 128, 128, speculative=True),
        "fp16, any lengths": partial(gated_delta_steps, "fp16", 64, 80, starts=True),
        "fp32, no states": partial(gated_delta_steps, "fp32", 256, 16, states=False, starts=True),
    },
    "solutions.gdn.conv_update_kernel:conv_update_kernel": {
        "bf16, width 4": partial(convolution_update, "bf16", 4),
        "bf16, width 4, drafts": partial(convolution_update, "bf16", 4, speculative=True),
        "fp32, width 2": partial(convolution_update, "fp32", 2),
    },
    "solutions.gdn.gating_kernel:gating_kernel": {
        "bf16": partial(gates, "bf16"),
        "fp32": partial(gates, "fp32"),
    },
    "solutions.gdn.gated_norm_kernel:gated_norm_kernel": {
        "bf16, heads of 128": partial(gated_norms, "bf16", 128),
        "fp32, heads of 80": partial(gated_norms, "fp32", 80),
    },
    "solutions.gdn.chunk_solve_kernel:chunk_solve_kernel": {
        "bf16, keys of 128": partial(chunk_solve, "bf16", 128),
        "fp16, keys of 64": partial(chunk_solve, "fp16", 64),
        "fp32, keys of 128": partial(chunk_solve, "fp32", 128),
    },
    "solutions.gdn.state_pass_kernel:state_pass_kernel": {
        **{
            f"bf16, {stages} stages": partial(state_pass, "bf16", 128, 128, stages)
            for stages in (1, 3, 4)
        },
        "fp16, from zeros": partial(state_pass, "fp16", 16, 32, 1, states=False),
        "fp32": partial(state_pass, "fp32", 128, 128, 1),
    },
    "solutions.gdn.chunk_output_kernel:chunk_output_kernel": {
        "bf16, heads of 128": partial(chunk_output, "bf16", 128, 128),
        "fp16, small heads": partial(chunk_output, "fp16", 16, 32, normalize=False),
        "fp32, heads of 128": partial(chunk_output, "fp32", 128, 128),
    },
    "solutions.gdn.single_ops.scaled_dot_kkt:scaled_dot_kkt_kernel": {
        "bf16, keys of 128": partial(scaled_dot_kkt, "bf16", 128),
        "fp32, keys of 128": partial(scaled_dot_kkt, "fp32", 128),
    },
    "solutions.gdn.single_ops.solve_tril:solve_tril_kernel": {
        "chunks of 64 to bf16": partial(solve_tril, "bf16", 64),
        "chunks of 64 to fp32": partial(solve_tril, "fp32", 64),
        "chunks of 16 to fp16": partial(solve_tril, "fp16", 16),
    },
    "solutions.gdn.single_ops.w_u:w_u_kernel": {
        "bf16, keys of 128": partial(w_u, "bf16", 128, decays=True),
        "fp32, values of 128": partial(w_u, "fp32", 128, decays=False),
    },
    "solutions.gdn.single_ops.state_pass:chunk_states_kernel": {
        "bf16, heads of 128": partial(chunk_states, "bf16", 128, 128),
        "fp32, heads of 128": partial(chunk_states, "fp32", 128, 128),
    },
}
WIDEST = [
    ("solutions.pinned_h2d.attention_kernel:prefix_attention_kernel", "bf16, head 256"),
    ("solutions.gdn.state_pass_kernel:state_pass_kernel", "bf16, 4 stages"),
]
"""Those that take the most shared memory of an architecture with little of it."""
EACH_LAUNCH = [(kernel, name) for kernel, launches in LAUNCHES.items() for name in launches]


def launches_on(architecture: int) -> dict:
    """{kernel: {launch: how}} with the tiles that fit this architecture."""
    shared_memory = SHARED_MEMORY[architecture]
    return {
        kernel: {name: launch(shared_memory=shared_memory) for name, launch in launches.items()}
        for kernel, launches in LAUNCHES.items()
    }


COMPILE_ALL = """
import importlib, json, sys
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


def compiled(path, launch, architecture):
    module, _, name = path.partition(":")
    kernel = getattr(importlib.import_module(module), name)
    places = {argument: (place,) for place, argument in enumerate(kernel.arg_names)}
    constants = {name: TYPES.get(value, value) for name, value in launch["constants"].items()}
    source = ASTSource(
        fn=kernel,
        signature={**launch["arguments"], **dict.fromkeys(constants, "constexpr")},
        constexprs={places[argument]: value for argument, value in constants.items()},
        attrs={places[argument]: [["tt.divisibility", 16]] for argument in launch["aligned"]},
    )
    target = GPUTarget("cuda", architecture, 32)
    return triton.compile(source, target=target, options=launch["options"])


TYPES = {"float16": tl.float16, "float32": tl.float32}
architecture = int(sys.argv[1])
for path, launches in json.loads(sys.argv[2]).items():
    for name, launch in launches.items():
        kernel = compiled(path, launch, architecture)
        print(json.dumps([path, name, architecture, kernel.metadata.shared, kernel.asm["ptx"]]))
"""

NEVER_SPECIALIZED = """
import importlib, json, sys

for path in json.loads(sys.argv[1]):
    module, _, name = path.partition(":")
    parameters = getattr(importlib.import_module(module), name).params
    values = [p.name for p in parameters if p.do_not_specialize]
    addresses = [p.name for p in parameters if p.do_not_specialize_on_alignment]
    constants = [p.name for p in parameters if p.is_constexpr]
    print(json.dumps([path, values, addresses, constants]))
"""

GATES_AND_TABLE = ["g", "beta", "cu_seqlens", "chunk_indices"]
VARIES = {
    **{
        f"solutions.flex_graph.{kernel}": (["num_tokens", "max_pages"], [])
        for kernel in (
            "request_tables_kernel:request_tables_kernel",
            "group_pages_kernel:needed_pages_kernel",
            "group_pages_kernel:packed_pages_kernel",
        )
    },
    "solutions.flex_graph.rotate_and_cache_kernel:rotate_and_cache_kernel": (
        ["num_rows"],
        ["positions", "slots"],
    ),
    "solutions.flex_graph.add_rms_norm_kernel:add_rms_norm_kernel": (["num_rows"], []),
    "solutions.flex_graph.silu_and_mul_kernel:silu_and_mul_kernel": (["num_rows"], []),
    "solutions.offload.swap_blocks_kernel:_swap_blocks_kernel": (
        ["num_jobs", "stride", "chunks_per_job"],
        ["src_addrs", "dst_addrs", "sizes"],
    ),
    "solutions.offload.job_kernel:swap_jobs_kernel": (
        ["num_jobs"],
        ["src_addrs", "dst_addrs", "sizes"],
    ),
    "solutions.offload.copy_pieces_kernel:copy_pieces_kernel": (
        ["num_pieces", "chunks_per_piece"],
        ["src_addrs", "dst_addrs", "sizes"],
    ),
    "solutions.offload.first_attempts.copy_piece_kernel:copy_piece_kernel": (
        ["source", "target", "num_words"],
        [],
    ),
    "solutions.pinned_h2d.attention_kernel:prefix_attention_kernel": (["max_ranges"], ["ranges"]),
    "solutions.sync_free.logprobs_kernel:vocabulary_block_kernel": (
        ["num_rows", "ids_stride"],
        ["ids"],
    ),
    "solutions.sync_free.logprobs_kernel:token_logprobs_kernel": (
        ["num_rows", "width", "ids_stride"],
        ["ids", "counts"],
    ),
    "solutions.sync_free.penalties_kernel:bincount_kernel": (
        [],
        ["rows", "prompt_lens", "prefill_lens"],
    ),
    "solutions.gdn.device_tables_kernel:chunk_tables_kernel": (
        ["num_rows", "num_seqs", "bisections"],
        ["chunk_indices", "chunk_offsets", "cu_seqlens"],
    ),
    "solutions.gdn.first_attempts.chunk_cumsum_kernel:chunk_cumsum_kernel": (
        ["first", "length"],
        [],
    ),
    "solutions.gdn.local_cumsum_kernel:local_cumsum_kernel": ([], ["cu_seqlens", "chunk_indices"]),
    "solutions.gdn.recurrent_kernel:recurrent_kernel": (
        ["num_tokens", "num_columns", "index_stride"],
        ["g", "beta", "cu_seqlens", "state_indices", "num_accepted_tokens"],
    ),
    "solutions.gdn.conv_update_kernel:conv_update_kernel": (
        ["num_tokens", "num_columns", "index_stride"],
        ["query_start_loc", "state_indices", "num_accepted_tokens"],
    ),
    "solutions.gdn.gating_kernel:gating_kernel": (["num_gates"], ["a", "b"]),
    "solutions.gdn.gated_norm_kernel:gated_norm_kernel": (["num_rows"], []),
    "solutions.gdn.chunk_solve_kernel:chunk_solve_kernel": (
        ["num_tokens"],
        ["decays", "key_norms", "read_scales", "write_scales", *GATES_AND_TABLE],
    ),
    "solutions.gdn.state_pass_kernel:state_pass_kernel": (
        ["num_tokens", "num_chunks", "num_slots"],
        [
            "read_scales",
            "write_scales",
            "cu_seqlens",
            "chunk_offsets",
            "state_indices",
            "has_initial_state",
        ],
    ),
    "solutions.gdn.chunk_output_kernel:chunk_output_kernel": (
        ["num_tokens"],
        ["decays", "key_norms", "cu_seqlens", "chunk_indices"],
    ),
    "solutions.gdn.single_ops.scaled_dot_kkt:scaled_dot_kkt_kernel": ([], GATES_AND_TABLE),
    "solutions.gdn.single_ops.solve_tril:solve_tril_kernel": ([], ["cu_seqlens", "chunk_indices"]),
    "solutions.gdn.single_ops.w_u:w_u_kernel": ([], GATES_AND_TABLE),
    "solutions.gdn.single_ops.state_pass:chunk_states_kernel": (
        [],
        ["g", "cu_seqlens", "chunk_offsets"],
    ),
}
"""Numbers that are others in each step, and tensors that lie elsewhere in an upload."""


def run_compiling(program: str, *arguments: str) -> str:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "TRITON_INTERPRET": "0"}
    # Kernels are compiled where CUDA is asked for; a GPU is needed only to run them.
    environment["DEBUBBLE_DEVICE"] = "cuda"
    result = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout


def test_every_kernel_has_launches_here():
    assert kernels_in_source() == set(LAUNCHES)


@pytest.fixture(scope="module")
def compiled() -> dict:
    """{(kernel, launch, architecture): (bytes of shared memory, PTX)}"""
    outputs = [
        run_compiling(COMPILE_ALL, str(architecture), json.dumps(launches_on(architecture)))
        for architecture in ARCHITECTURES
    ]
    records = (json.loads(line) for output in outputs for line in output.splitlines())
    return {tuple(key): (shared, ptx) for *key, shared, ptx in records}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(("kernel", "launch"), EACH_LAUNCH, ids=lambda value: value.split(":")[-1])
def test_it_compiles(compiled, kernel, launch, architecture):
    shared, ptx = compiled[kernel, launch, architecture]
    assert f".target sm_{architecture}" in ptx
    assert shared <= SHARED_MEMORY[architecture]
    expected = launches_on(architecture)[kernel][launch].get("tensor_cores", False)
    assert ("wgmma" in ptx or "mma.sync" in ptx) == expected, "which products use tensor cores"


@pytest.mark.parametrize(("kernel", "launch"), WIDEST, ids=lambda value: value.split(":")[-1])
def test_the_widest_launches_fit_where_there_is_the_least_shared_memory(kernel, launch):
    architecture, most = 86, 99 * 1024  # NVIDIA A10G, and 89: L4, GeForce RTX 4090
    how = LAUNCHES[kernel][launch](shared_memory=most)
    (line,) = run_compiling(
        COMPILE_ALL, str(architecture), json.dumps({kernel: {launch: how}})
    ).splitlines()
    *_, shared, _ = json.loads(line)
    assert shared <= most


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(
    ("launch", "loads", "stores"),
    [
        ("4096-byte chunks", r"cp\.async\.ca\S+ .*, 0x8,", r"st\.global\.b64"),
        ("4096-byte chunks, vectors", r"cp\.async\.cg\S+ .*, 0x10,", r"st\.global\.v2\.b64"),
        ("8192-byte chunks, not pipelined", r"ld\.global\.v2\.b64", r"st\.global\.v2\.b64"),
    ],
)
def test_swapped_chunks_move_as_wide_and_as_early_as_they_can(
    compiled, architecture, launch, loads, stores
):
    _, ptx = compiled[
        "solutions.offload.swap_blocks_kernel:_swap_blocks_kernel", launch, architecture
    ]
    assert re.search(loads, ptx)
    assert re.search(stores, ptx)
    assert ("st.global.v2.b64" in ptx) == ("st.global.b64" not in ptx)


def test_what_varies_from_step_to_step_is_no_part_of_what_is_compiled():
    lines = run_compiling(NEVER_SPECIALIZED, json.dumps([*VARIES])).splitlines()
    for path, values, addresses, constants in map(json.loads, lines):
        varying_values, varying_addresses = map(set, VARIES[path])
        assert varying_values <= set(values), path
        assert varying_addresses <= set(addresses), path
        assert not varying_values & set(constants), path
    assert len(lines) == len(VARIES)
