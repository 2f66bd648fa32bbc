"""Every Triton kernel of `solutions` compiles for the GPUs that matter, without one of them.

In a process of its own: here, without a GPU, the kernels are there to be interpreted.
"""

import ast
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch

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
    """`solutions.system.module:kernel` of every function that is decorated with triton.jit."""
    found = set()
    for path in (ROOT / "solutions").rglob("*.py"):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and any(
                "triton.jit" in ast.unparse(decorator) for decorator in node.decorator_list
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


LAUNCHES = {
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
}
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
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


def compiled(path, launch, architecture):
    module, _, name = path.partition(":")
    kernel = getattr(importlib.import_module(module), name)
    places = {argument: (place,) for place, argument in enumerate(kernel.arg_names)}
    constants = launch["constants"]
    source = ASTSource(
        fn=kernel,
        signature={**launch["arguments"], **dict.fromkeys(constants, "constexpr")},
        constexprs={places[argument]: value for argument, value in constants.items()},
        attrs={places[argument]: [["tt.divisibility", 16]] for argument in launch["aligned"]},
    )
    target = GPUTarget("cuda", architecture, 32)
    return triton.compile(source, target=target, options=launch["options"])


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

VARIES = {
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
}
"""Numbers that are others in each step, and tensors that lie elsewhere in an upload."""


def run_compiling(program: str, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TRITON_INTERPRET": "0"}
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


def test_what_varies_from_step_to_step_is_no_part_of_what_is_compiled():
    lines = run_compiling(NEVER_SPECIALIZED, json.dumps([*VARIES])).splitlines()
    for path, values, addresses, constants in map(json.loads, lines):
        varying_values, varying_addresses = map(set, VARIES[path])
        assert varying_values <= set(values), path
        assert varying_addresses <= set(addresses), path
        assert not varying_values & set(constants), path
    assert len(lines) == len(VARIES)
