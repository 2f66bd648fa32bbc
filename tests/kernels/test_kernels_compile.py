"""Every Triton kernel of `solutions` compiles for the GPUs that matter, without any of them.

The compilation runs in its own process, since kernels in this one are interpreted if there is no
GPU (compiling.py says how far each launch is compiled).
"""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from tests.deep import all_run

from .architectures import FULLY_COMPILED, SHARED_MEMORY, check_memory
from .launches import LAUNCHES, VARIES
from .launches.pinned_h2d import attention

ROOT = Path(__file__).resolve().parents[2]


def on(how: dict | Callable[..., dict], architecture: int) -> dict:
    """Returns the input of `triton.compile` for a launch on this architecture."""
    return how(shared_memory=SHARED_MEMORY[architecture]) if callable(how) else how


SLOW = {
    (kernel, name)
    for kernel, launches in LAUNCHES.items()
    for name, launch in launches.items()
    if on(launch, FULLY_COMPILED).get("slow_to_compile")
}
FIRST = {
    (kernel, min(launches, key=lambda name: (kernel, name) in SLOW))
    for kernel, launches in LAUNCHES.items()
}
"""The first launch of each kernel that isn't slow to compile."""
EACH_LAUNCH = [
    pytest.param(kernel, name, marks=[] if (kernel, name) in FIRST else [pytest.mark.deep])
    for kernel, launches in LAUNCHES.items()
    for name in launches
]
ATTENTION = "solutions.pinned_h2d.model.attention:prefix_attention_kernel"
COPY = "solutions.offload.swap_blocks:_swap_blocks_kernel"
ARCHITECTURES = [
    number if number == FULLY_COMPILED else pytest.param(number, marks=pytest.mark.deep)
    for number in SHARED_MEMORY
]
"""The architectures to compile for. `make test` lowers one launch of each kernel, FIRST, for
FULLY_COMPILED only, and makes machine code of it. Of two kernels it does so for one with little
shared memory too. A deep run lowers every launch for every architecture, and makes machine code of
every launch for FULLY_COMPILED."""
TOO_WIDE = "bf16, head 256, as on an A100"


def kernels_in_source() -> set[str]:
    """Returns "module:kernel" for every Triton kernel in `solutions` that the host launches.
    Functions that kernels call are left out."""
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


def run_compiling(*arguments: str) -> str:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "TRITON_INTERPRET": "0"}
    # Kernels are compiled for CUDA if it is requested; a GPU is needed only to run them.
    environment["DEBUBBLE_DEVICE"] = "cuda"
    result = subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout


def jobs(
    wanted: set[tuple[str, int]], left_out: Collection[tuple[str, str]], deep: bool
) -> list[tuple[str, dict]]:
    """Returns the jobs for tests.kernels.compiling: [kernel, {launch: {architecture: how}}] for all
    launches but `left_out` and the wanted (kernel, architecture) pairs, and a faulty launch of
    attention. With `deep` the PTX of every launch for FULLY_COMPILED is read. The slowest come
    first."""
    launches = {
        kernel: {name: way for name, way in ways.items() if (kernel, name) not in left_out}
        for kernel, ways in LAUNCHES.items()
    }
    of_an_a100 = attention("bf16", 256, group=2, window=1024, shared_memory=SHARED_MEMORY[80])
    launches[ATTENTION][TOO_WIDE] = of_an_a100 | {"slow_to_compile": True}
    chosen = [
        (
            kernel,
            {
                name: {
                    number: on(launch, number)
                    | ({"ptx_is_read": True} if deep and number == FULLY_COMPILED else {})
                    for of, number in wanted
                    if of == kernel
                }
                for name, launch in ways.items()
            },
        )
        for kernel, ways in launches.items()
    ]
    return sorted(chosen, key=lambda job: "slow_to_compile" not in str(job))


@pytest.fixture(scope="module")
def compiled(request, tmp_path_factory) -> dict:
    """Compiles the launches for the architectures of the tests that run, and returns {(kernel,
    launch, architecture): facts}."""
    run = [item.callspec for item in request.session.items if hasattr(item, "callspec")]
    wanted = {
        (kernel, call.params["architecture"])
        for call in run
        if "architecture" in call.params
        for kernel in ([call.params["kernel"]] if "kernel" in call.params else (ATTENTION, COPY))
    }
    folder = tmp_path_factory.mktemp("kernels")
    asked, answered = folder / "jobs.json", folder / "results.jsonl"
    here = {(call.params.get("kernel", COPY), call.params.get("launch")) for call in run}
    every = {(kernel, name) for kernel, launches in LAUNCHES.items() for name in launches}
    asked.write_text(json.dumps(jobs(wanted, every - FIRST - here, all_run(request.config))))
    run_compiling("-m", "tests.kernels.compiling", str(asked), str(answered))
    records = map(json.loads, answered.read_text().splitlines())
    return {tuple(launch): facts for *launch, facts in records}


def test_every_kernel_has_launches_here():
    assert kernels_in_source() == set(LAUNCHES)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(("kernel", "launch"), EACH_LAUNCH, ids=lambda value: value.split(":")[-1])
def test_it_compiles(compiled, kernel, launch, architecture):
    facts = compiled[kernel, launch, architecture]
    assert "error" not in facts, facts["error"]
    check_memory(kernel, launch, architecture, facts["shared"], facts["tensor_memory"])
    how = on(LAUNCHES[kernel][launch], architecture)
    expected = how.get("tensor_cores", False)
    assert facts["tensor_cores"] == expected, "which products use tensor cores"
    if "ptx" in facts:
        assert f".target sm_{architecture}" in facts["ptx"]
        assert facts["ptx_has_tensor_cores"] == expected
        assert facts["shared_with_machine_code"] == facts["shared"]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("kernel", LAUNCHES, ids=lambda value: value.split(":")[-1])
def test_it_becomes_machine_code(compiled, pytestconfig, kernel, architecture):
    place = kernel, architecture
    facts = {name: found for (of, name, on), found in compiled.items() if (of, on) == place}
    facts.pop(TOO_WIDE, None)
    made = [name for name, found in facts.items() if "ptx" in found]
    assert made
    if architecture == FULLY_COMPILED and all_run(pytestconfig):
        assert [*facts] == made


@pytest.mark.parametrize(
    "architecture", [86, *(pytest.param(number, marks=pytest.mark.deep) for number in (89, 120))]
)
def test_a_launch_for_more_shared_memory_than_there_is_is_found(compiled, architecture):
    """`check_memory` finds a launch of attention whose tile fits an A100, but not this
    architecture. (The tile was once used for every GPU with less shared memory.)"""
    facts = compiled[ATTENTION, TOO_WIDE, architecture]
    message = (
        rf"prefix_attention_kernel \({TOO_WIDE}\) takes 106496 bytes of shared memory on "
        rf"sm_{architecture}, where a block has at most 101376: choose a smaller tile"
    )
    with pytest.raises(AssertionError, match=message):
        check_memory(ATTENTION, TOO_WIDE, architecture, facts["shared"])
    check_memory(ATTENTION, TOO_WIDE, 80, facts["shared"])


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
    ptx = compiled[COPY, launch, architecture]["ptx"]
    assert re.search(loads, ptx)
    assert re.search(stores, ptx)
    assert ("st.global.v2.b64" in ptx) == ("st.global.b64" not in ptx)


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


def test_what_varies_from_step_to_step_is_no_part_of_what_is_compiled():
    lines = run_compiling("-c", NEVER_SPECIALIZED, json.dumps([*VARIES])).splitlines()
    for path, values, addresses, constants in map(json.loads, lines):
        varying_values, varying_addresses = map(set, VARIES[path])
        assert varying_values <= set(values), path
        assert varying_addresses <= set(addresses), path
        assert not varying_values & set(constants), path
    assert len(lines) == len(VARIES)
