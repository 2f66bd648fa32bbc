"""Compiles launches for GPUs that need not be there, a kernel at a time, on all cores:

    TRITON_INTERPRET=0 DEBUBBLE_DEVICE=cuda python -m tests.kernels.compiling JOBS RESULTS

JOBS is a JSON list of [kernel, {launch: {architecture: how}}], as tests.kernels.launches says it.
RESULTS has a line for each launch and architecture: [kernel, launch, architecture, facts].

Every launch is lowered for every architecture, as far as its memory is known; architectures that
are ALIKE share that. Machine code comes after it, and takes most of the time. It is made of each
kernel's launch with the most shared memory that isn't slow to compile, and of those whose PTX is
read. Facts are kept in build/: what was compiled once, of the same kernel by the same Triton, is
not compiled again.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path

import triton
import triton.language as tl
from triton._C.libtriton import ir, nvidia, passes
from triton.backends.compiler import GPUTarget, Language
from triton.backends.nvidia.compiler import get_ptx_version_from_options
from triton.compiler import ASTSource, make_backend

from .architectures import ALIKE, FULLY_COMPILED

KEPT = Path(__file__).resolve().parents[2] / "build" / "compiled-kernels"
TTIR: dict[str, str] = {}
TTGIR: dict[tuple, str] = {}
"""The TTGIR of the current kernel's launches as text, to compute it once. It is no module, since
contexts can't be shared."""
TYPES = {"float16": tl.float16, "float32": tl.float32}
ON_TENSOR_CORES = re.compile(
    r"ttng\.(warp_group_dot|tc_gen5_mma)\b|\btt\.dot .* -> tensor<[^>]*#mma"
)
"""A pattern that finds a matrix product on tensor cores in TTGIR. A product of #blocked operands
runs on other cores."""
IN_PTX = re.compile(r"\b(wgmma|mma\.sync|tcgen05\.mma)\b")


class Architecture:
    """Triton's compiler stages for one GPU architecture and one set of launch options."""

    def __init__(self, number: int, options: dict) -> None:
        self.number = number
        self.backend = make_backend(GPUTarget("cuda", number, 32))
        self.options = self.backend.parse_options(dict(options))
        self.stages: dict[str, Callable] = {}
        self.backend.add_stages(self.stages, self.options, Language.TRITON)

    def context(self):
        context = ir.context()
        ir.load_dialects(context)
        self.backend.load_dialects(context)
        return context

    def ttir(self, kernel: str, how: dict) -> str:
        """Returns the TTIR (Triton's first intermediate form) of a launch of this kernel, without
        source lines."""
        module, _, name = kernel.partition(":")
        function = getattr(importlib.import_module(module), name)
        places = {argument: (place,) for place, argument in enumerate(function.arg_names)}
        constants = {name: TYPES.get(value, value) for name, value in how["constants"].items()}
        source = ASTSource(
            fn=function,
            signature={**how["arguments"], **dict.fromkeys(constants, "constexpr")},
            constexprs={places[argument]: value for argument, value in constants.items()},
            attrs={places[argument]: [["tt.divisibility", 16]] for argument in how["aligned"]},
        )
        module = source.make_ir(
            GPUTarget("cuda", self.number, 32),
            self.options,
            self.backend.get_codegen_implementation(self.options),
            self.backend.get_module_map(),
            self.context(),
        )
        return self.stages["ttir"](module, {}).str_nodebug()

    def ttgir(self, ttir: str):
        key = (ttir, self.number, str(self.options))
        if key in TTGIR:
            return self.parsed(TTGIR[key])
        module = self.stages["ttgir"](self.parsed(ttir), {})
        TTGIR[key] = module.str_nodebug()
        return module

    def parsed(self, text: str):
        context = self.context()
        with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
            file.write(text)
            file.flush()
            module = ir.parse_mlir_module(file.name, context)
        module.context = context
        return module

    def memory(self, ttir: str) -> dict:
        """Returns the launch's bytes of shared memory, its columns of tensor memory, and if it uses
        tensor cores, as found by the first passes of Triton's `make_llir`."""
        module = self.ttgir(ttir)
        facts = {"tensor_cores": bool(ON_TENSOR_CORES.search(module.str_nodebug()))}
        allocation = ir.pass_manager(module.context)
        passes.ttgpuir.add_combine_tensor_select_and_if(allocation)
        passes.ttgpuir.add_allocate_warp_groups(allocation)
        passes.convert.add_scf_to_cf(allocation)
        passes.gluon.add_inliner(allocation)
        ptx_version = get_ptx_version_from_options(self.options, self.number)
        nvidia.passes.ttgpuir.add_allocate_shared_memory_nv(allocation, self.number, ptx_version)
        nvidia.passes.ttnvgpuir.add_allocate_tensor_memory(allocation)
        allocation.run(module, "allocation")
        return facts | {
            "shared": module.get_int_attr("ttg.shared"),
            "tensor_memory": module.get_int_attr("ttg.tensor_memory_size") or 0,
        }

    def machine_code(self, ttir: str) -> dict:
        metadata: dict = {}
        llir = self.stages["llir"](self.ttgir(ttir), metadata)
        ptx = self.stages["ptx"](llir, metadata)
        assert self.stages["cubin"](ptx, metadata)
        return {
            "ptx": ptx,
            "ptx_has_tensor_cores": bool(IN_PTX.search(ptx)),
            "shared_with_machine_code": metadata["shared"],
        }


@cache
def tools() -> str:
    return triton.__version__ + hashlib.sha256(Path(__file__).read_bytes()).hexdigest()


def kept(make: Callable[[str], dict], name: str, ttir: str, how: dict, architecture: int) -> dict:
    """Returns the facts of `make(ttir)`, from the folder build/ if they were found before for the
    same kernel, options, architecture and tools."""
    key = json.dumps([tools(), name, ttir, how["options"], architecture])
    path = KEPT / f"{hashlib.sha256(key.encode()).hexdigest()}.json.gz"
    if path.exists():
        return json.loads(gzip.decompress(path.read_bytes()))
    facts = make(ttir)
    KEPT.mkdir(parents=True, exist_ok=True)
    written = path.with_suffix(f".{os.getpid()}")
    written.write_bytes(gzip.compress(json.dumps(facts).encode(), compresslevel=1))
    written.replace(path)
    return facts


def with_error(find: Callable[[], dict]) -> dict:
    try:
        return find()
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def memory(kernel: str, how: dict, architecture: int) -> dict:
    lowered = Architecture(ALIKE.get(architecture, architecture), how["options"])
    return kept(lowered.memory, "memory", ttir_of(kernel, how), how, lowered.number)


def machine_code(kernel: str, how: dict, architecture: int) -> dict:
    compiled = Architecture(architecture, how["options"])
    return kept(compiled.machine_code, "code", ttir_of(kernel, how), how, architecture)


def ttir_of(kernel: str, how: dict) -> str:
    """Returns the launch's TTIR, made once for all architectures: no kernel here depends on the
    architecture."""
    key = json.dumps([kernel, how], sort_keys=True)
    if key not in TTIR:
        TTIR[key] = Architecture(FULLY_COMPILED, how["options"]).ttir(kernel, how)
    return TTIR[key]


def records(job: tuple[str, dict]) -> list[str]:
    """Compiles all launches of one kernel, and returns a result line, as JSON, for each launch and
    architecture."""
    kernel, launches = job
    TTIR.clear()
    TTGIR.clear()
    ways = {
        (name, int(number)): how
        for name, choices in launches.items()
        for number, how in choices.items()
    }
    found = {
        launch: with_error(partial(memory, kernel, how, launch[1])) for launch, how in ways.items()
    }
    for launch in set(to_machine_code(ways, found)):
        found[launch] |= with_error(partial(machine_code, kernel, ways[launch], launch[1]))
    return [json.dumps([kernel, *launch, facts]) for launch, facts in found.items()]


def to_machine_code(ways: dict, found: dict) -> Iterator[tuple[str, int]]:
    for architecture in {architecture for _, architecture in ways}:
        here = [launch for launch in ways if launch[1] == architecture]
        quick = [launch for launch in here if not ways[launch].get("slow_to_compile")]
        yield max(quick or here, key=lambda launch: found[launch].get("shared", 0))
        for launch in here:
            if ways[launch].get("ptx_is_read"):
                yield launch


def main(jobs_path: str, results_path: str) -> None:
    jobs = json.loads(Path(jobs_path).read_text())
    workers = min(len(os.sched_getaffinity(0)), 8)
    with get_context("fork").Pool(workers) as pool, open(results_path, "w") as results:
        for lines in pool.imap_unordered(records, jobs):
            results.writelines(f"{line}\n" for line in lines)


if __name__ == "__main__":
    main(*sys.argv[1:])
