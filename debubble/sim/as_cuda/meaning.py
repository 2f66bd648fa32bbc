"""The block in which "cuda" means sim, for all threads of the process."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

import torch

from debubble.contract.protocol import Accelerator

from ..clock.device import SimDevice
from ..memory.blocks import IN_USE
from ..operators.dispatch import Dispatcher
from ..tensor import CALLED
from . import compiling, one_gpu
from .amp import autocast_of_cuda_is_sims
from .dispatching import cuda_is_made_on_sim
from .refusing import forget_what_was_said
from .replacing import in_place_of, replaced
from .tensors import tensors_say_cuda
from .torch_cuda import generators, memory, nothing
from .torch_cuda.names import accelerator_names, cuda_names, generic_names, of_submodule

CUDA_VERSION = "13.0"
"""The CUDA version that `torch.version.cuda` reports: the version with which the GPUs' calibrations
were made."""


@contextmanager
def cuda_means_sim(
    accelerator: Accelerator, device: SimDevice, dispatcher: Dispatcher
) -> Iterator[None]:
    """Makes "cuda" mean sim inside the block, in all threads. Inside another such block it changes
    nothing.

    Raises RuntimeError if PyTorch's table of device guards can't be found.
    """
    if "cuda" in CALLED:
        yield
        return
    names = in_place_of(torch.cuda, cuda_names(accelerator, device))
    compile = compiling.compiler(device.beside)
    with ExitStack() as stack:
        stack.enter_context(cuda_is_made_on_sim(dispatcher))
        stack.enter_context(tensors_say_cuda())
        stack.enter_context(autocast_of_cuda_is_sims())
        for owner, values in _replacements(names, compile):
            stack.enter_context(replaced(owner, values))
        stack.enter_context(compiling.kernels_are_launched(accelerator))
        stack.enter_context(replaced(accelerator, {"device": torch.device("cuda", 0)}))
        stack.enter_context(replaced(IN_USE, {"is_counted": True, "limit": memory.what_fits()}))
        forget_what_was_said()
        device.beside.count_memory()
        yield


def _replacements(
    names: dict[str, object], compile: object
) -> Iterator[tuple[object, dict[str, object]]]:
    yield torch.cuda, names
    for name in ("streams", "graphs"):
        module = importlib.import_module(f"torch.cuda.{name}")
        yield module, of_submodule(module, names)
    yield torch.cuda.memory, {n: names[n] for n in (*memory.FUNCTIONS, "mem_get_info")}
    yield torch.cuda.random, {name: names[name] for name in generators.FUNCTIONS}
    yield torch, {"Stream": names["Stream"]}
    yield torch.version, {"cuda": CUDA_VERSION}
    profile = torch.autograd.profiler.profile
    rest: list[tuple[object, Mapping[str, object]]] = [
        (torch.cuda.nvtx, nothing.NVTX),
        (torch.cuda.profiler, nothing.PROFILER),
        (torch.accelerator, accelerator_names(names)),
        (torch.backends.cuda, {"is_built": lambda: True}),
        (torch, {"compile": compile, **generic_names(names)}),
        (profile, {"__init__": one_gpu.profiling_the_host(profile.__init__)}),
    ]
    if torch.distributed.is_available():
        yield from one_gpu.nccl_of_one()
    for owner, values in rest:
        yield owner, in_place_of(owner, values)
