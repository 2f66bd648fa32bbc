"""The peers of our paths on a GPU: vLLM's own file, and the driver's call with nothing around
it."""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType

import torch

from ..choice.presets import UPSTREAM
from ..paths.descriptors import next_power_of_2
from .grid import Copy

FUNCTION = "swap_blocks_batch"
SRC_ACCESS_ORDER_ANY = 3


def peer_swap(path: Path) -> Callable[[int], Copy]:
    """Returns a function from the size of pieces to vLLM's `swap_blocks_batch`, imported from the
    file at `path`. In vLLM 0.33 the file is `vllm/v1/kv_offload/cpu/swap_blocks_triton.py`. vLLM
    itself need not be installed, since no list is measured that is so short that the file would
    call vLLM (`presets.MIN_N`).

    Raises ValueError, in one sentence, for a path without a file, and for a file that can't be
    imported or has no such function.
    """
    if not path.is_file():
        raise ValueError(f"{path} is no file: --peer takes vLLM's swap_blocks_triton.py")
    spec = importlib.util.spec_from_file_location("_peer_swap_blocks", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is no Python file: --peer takes vLLM's swap_blocks_triton.py")
    module = importlib.util.module_from_spec(spec)
    try:
        with _vllm_is_there():
            spec.loader.exec_module(module)
        function = getattr(module, FUNCTION)
    except Exception as error:
        raise ValueError(f"{path} can't be compared with: {error}") from error

    def for_pieces(nbytes: int) -> Copy:
        chunk = min(next_power_of_2(nbytes), UPSTREAM.bytes_per_chunk)
        return partial(function, is_src_access_order_any=True, bytes_per_chunk=chunk)

    return for_pieces


@contextmanager
def _vllm_is_there() -> Iterator[None]:
    """Makes vLLM's file importable in the `with` block if vLLM isn't installed: stands in for the
    modules that the file imports from vLLM, which have Triton, and operators that aren't called."""
    if importlib.util.find_spec("vllm") is not None:
        yield
        return
    import triton
    import triton.language as tl

    package, operators, helpers = (
        ModuleType(name) for name in ("vllm", "vllm._custom_ops", "vllm.triton_utils")
    )
    vars(package).update(__path__=[], _custom_ops=operators)
    vars(helpers).update(triton=triton, tl=tl, HAS_TRITON=True)
    modules = {module.__name__: module for module in (package, operators, helpers)}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name in modules:
            del sys.modules[name]


def driver_batch() -> Copy:
    """Returns a copy by cuMemcpyBatchAsync, called through ctypes with dense lists that are neither
    prepared nor checked: the least that a copy engine's batch can cost. The copy raises
    RuntimeError if the driver refuses. Raises OSError or AttributeError if the driver has no such
    function."""
    submit = ctypes.CDLL("libcuda.so.1").cuMemcpyBatchAsync
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    submit.argtypes = (pointer, pointer, pointer, size, pointer, pointer, size, pointer, pointer)
    attributes = (ctypes.c_int32 * 6)(SRC_ACCESS_ORDER_ANY)
    first, failed = size(0), size(0)

    def copy(src: torch.Tensor, dst: torch.Tensor, sizes: torch.Tensor) -> None:
        result = submit(
            dst.data_ptr(),
            src.data_ptr(),
            sizes.data_ptr(),
            len(sizes),
            ctypes.byref(attributes),
            ctypes.byref(first),
            1,
            ctypes.byref(failed),
            torch.cuda.current_stream().cuda_stream,
        )
        if result:
            raise RuntimeError(f"cuMemcpyBatchAsync: error {result}, piece {failed.value}")

    return copy
