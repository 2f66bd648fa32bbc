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
    """One way to launch the attention kernel: types of its arguments, its constants, its tile."""
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
from solutions.pinned_h2d.attention_kernel import prefix_attention_kernel

for parameter in prefix_attention_kernel.params:
    print(
        parameter.name,
        parameter.do_not_specialize,
        parameter.do_not_specialize_on_alignment,
        parameter.is_constexpr,
    )
"""


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
    if "fp32" not in launch:
        assert "wgmma" in ptx or "mma.sync" in ptx, "the products don't use tensor cores"


def test_the_number_of_ranges_is_no_part_of_what_is_compiled():
    lines = [line.split() for line in run_compiling(NEVER_SPECIALIZED).splitlines()]
    by_name = {name: flags for name, *flags in lines}
    assert by_name["max_ranges"] == ["True", "False", "False"]
    assert by_name["ranges"] == ["False", "True", "False"]
