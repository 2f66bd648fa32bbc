"""The names that Kineto gives to calls, copies, streams and functions, and what they mean."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from functools import cache

from ..contract.source_line import SourceLine
from ..timeline.event import CopyKind, EventKind

DEFAULT_STREAM = 7
"""CUPTI's number of the legacy default stream."""
HOST_CATEGORIES = {"cuda_runtime", "cuda_driver"}
PREFIX = "debubble:"
"""The first characters of the annotations that our own recordings make."""
BEGIN, END = f"{PREFIX}begin", f"{PREFIX}end"
"""Annotations where the recorded block begins and ends."""
ALLOCATES = ("cudaMalloc", "cudaHostAlloc", "cuMemCreate")
WAITS = re.compile(r"Synchronize|^(cu|cuda|hip)Memcpy(?!.*(Async|Peer|DtoD|Batch))")
"""Calls that return once the device has done something: PyTorch for AMD waits in the call of a
copy."""


def host_kind(name: str, launches: bool, allocations: bool = False) -> EventKind | None:
    """Returns the kind of a CUDA call, or None for a call that neither waits nor starts work. With
    `allocations`, a call that allocates memory has a kind as well."""
    if allocations and name in ALLOCATES:
        return "alloc"
    if WAITS.search(name):
        return "sync"
    if "GraphLaunch" in name:
        return "graph_launch"
    return "launch" if launches else None


def words(name: str) -> str:
    """Returns the words of a function's name: `stream synchronize` for `cudaStreamSynchronize`."""
    return " ".join(re.findall("[A-Z][a-z]+", name)).lower()


def copy_kind(name: str) -> CopyKind | None:
    if "HtoD" in name:
        return "h2d_pinned" if "Pinned ->" in name else "h2d_pageable"
    if "DtoH" in name:
        return "d2h"
    return "d2d" if "DtoD" in name else None


def lanes(streams: Iterable[int]) -> dict[int, str]:
    """Returns the timeline's lane of each stream number: "stream 0" is the default stream, which
    AMD's profiler numbers 0, and the others are numbered in the order of their first work."""
    found = dict.fromkeys(streams)
    default = 0 if 0 in found else DEFAULT_STREAM
    others = [stream for stream in found if stream != default]
    numbers = {default: 0} | {stream: n for n, stream in enumerate(others, start=1)}
    return {stream: f"stream {number}" for stream, number in numbers.items()}


@cache
def short_kernel_name(name: str) -> str:
    """Returns `reduce_kernel` for `void at::native::reduce_kernel<512, 1, ...>(...)`, and for
    `_ZN2at6native13reduce_kernelI...`, which AMD's profiler writes for types of newer compilers."""
    bare = name.removeprefix("void ").replace("(anonymous namespace)::", "")
    if mangled := re.match(r"_ZN?(?=\d)", bare):
        return last_part(bare[mangled.end() :])
    bare = re.split(r"[<(]", bare, maxsplit=1)[0]
    return bare.rsplit("::", 1)[-1].strip() or name


def last_part(mangled: str) -> str:
    """Returns the last of the names that follow each other in C++'s mangled form: `4name3two`."""
    name = ""
    while length := re.match(r"\d+", mangled):
        end = length.end() + int(length[0])
        name, mangled = mangled[length.end() : end], mangled[end:]
    return name


FUNCTION = re.compile(
    r"(?P<file>.+\.pyx?|<[^>]+>|/.*|.*ipykernel.*)\((?P<line>\d+)\): (?P<name>.+)"
)
"""A Python function as Kineto names it: its file, its first line and its name."""
MACHINERY = {"torch", "triton", "functorch", "torchgen", "numpy", "debubble", "_pytest", "pluggy"}
INSTALLED = re.compile(r"(?:^|.*/)(?:site|dist)-packages/")
LIBRARY = re.compile(r"(?:^|.*/)lib/python3(?:\.\d+)?/")


def function_line(name: str) -> SourceLine | None:
    """Returns the first line of the Python function that Kineto calls `name`, or None if it belongs
    to PyTorch, to Python's own library or to no file. Kineto knows no line inside a function."""
    matched = FUNCTION.fullmatch(name)
    if matched is None:
        return None
    file = INSTALLED.sub("", matched["file"])
    in_library = LIBRARY.match(file) is not None
    top = file.split("/")[0].removesuffix(".py")
    if in_library or top in MACHINERY or top in sys.stdlib_module_names or file.startswith("<"):
        return None
    function = matched["name"]
    code = "the module's own code" if function == "<module>" else f"def {function}"
    return SourceLine(matched["file"], int(matched["line"][:9]), function, code)
