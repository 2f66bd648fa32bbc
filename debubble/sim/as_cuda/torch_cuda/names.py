"""`torch.cuda` on sim, name by name. Names that sim lacks raise NotSimulated and say why."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import torch

from debubble.contract.protocol import Accelerator

from ...clock.device import SimDevice
from ...memory.pinning import register, unregister
from ...operators.differences.cuda_refusals import NAMES
from ..refusing import check_index, refusing, say_once
from . import generators, memory, nothing
from .graphs import CUDAGraph, graph, graph_pool_handle
from .properties import properties_of
from .streams import Event, GenericEvent, Stream, StreamContext, index_of

KEPT = {
    "CudaError",
    "DeferredCudaCallError",
    "amp",
    "cudaStatus",
    "graphs",
    "has_half",
    "has_magma",
    "make_graphed_callables",
    "memory",
    "profiler",
    "nvtx",
    "random",
    "sparse",
    "streams",
}
"""Names that stay PyTorch's own: they need no GPU, or use the replacements made here."""
NO_LIBRARY = "there is no library of CUDA's that could have made a stream"
WHY = {
    "utilization": "a GPU's own counters are not modelled",
    "temperature": "a GPU's own counters are not modelled",
    "power_draw": "a GPU's own counters are not modelled",
    "clock_rate": "a GPU's own counters are not modelled",
    "memory_usage": "a GPU's own counters are not modelled",
    "device_memory_used": "a GPU's own counters are not modelled",
    "list_gpu_processes": "sim has no driver that lists processes",
    "nccl": "sim is one GPU",
    "jiterator": "nothing is compiled for a GPU",
    "ExternalStream": NO_LIBRARY,
    "get_stream_from_external": NO_LIBRARY,
}
"""The reason why a name of `torch.cuda` can't be simulated, by name. All other refused names have
the reason `ELSEWHERE`."""
ELSEWHERE = "sim has no counterpart to this part of CUDA"
SYNC_DEBUG_MODE = (
    "torch.cuda.set_sync_debug_mode does nothing on sim: debubble lists every wait, and "
    "no_host_syncs raises at them"
)
CYCLES_PER_US = 1980.0
"""The clock cycles per microsecond of an H200 at full clock, for `torch.cuda._sleep`."""


def cuda_names(accelerator: Accelerator, sim: SimDevice) -> dict[str, object]:
    """Returns the value of each name in `torch.cuda` while "cuda" means sim."""
    gpu, of = sim.cost.gpu, {"of": sim}
    stream: Any = type("Stream", (Stream,), of)
    sim.streams.default.__class__ = stream

    def set_device(device: Any) -> None:
        check_index(index_of(device))

    def get_properties(device: Any = None) -> Any:
        set_device(device)
        return properties_of(gpu)

    def set_stream(stream: Any) -> None:
        if stream is not None:
            sim.streams.set(stream)

    names: dict[str, object] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": nothing.nothing,
        "_lazy_init": nothing.nothing,
        "_lazy_call": lambda callable, **kwargs: callable(),
        "_is_in_bad_fork": lambda: False,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": set_device,
        "_exchange_device": lambda device: 0,
        "_maybe_exchange_device": lambda device: 0,
        "_get_device_index": lambda device, optional=False, allow_cpu=False: index_of(device) or 0,
        "device": type("device", (nothing.Device,), {}),
        "device_of": type("device_of", (nothing.DeviceOf,), {}),
        "synchronize": lambda device=None: accelerator.synchronize(),
        "Stream": stream,
        "Event": type("Event", (Event,), of),
        "ExternalStream": partial(_external, sim),
        "get_stream_from_external": lambda data_ptr, device=None: _external(sim, data_ptr, device),
        "StreamContext": type("StreamContext", (StreamContext,), {}),
        "stream": StreamContext,
        "current_stream": lambda device=None: sim.streams.current(),
        "default_stream": lambda device=None: sim.streams.default,
        "set_stream": set_stream,
        "CUDAGraph": type("CUDAGraph", (CUDAGraph,), of),
        "graph": type("graph", (graph,), {}),
        "graph_pool_handle": graph_pool_handle,
        "is_current_stream_capturing": lambda: sim.capturing is not None,
        "get_device_properties": get_properties,
        "get_device_name": lambda device=None: get_properties(device).name,
        "get_device_capability": lambda device=None: (
            get_properties(device).major,
            get_properties(device).minor,
        ),
        "get_arch_list": lambda: ["sm_{0.major}{0.minor}".format(get_properties())],
        "get_gencode_flags": lambda: "",
        "is_bf16_supported": lambda including_emulation=True: True,
        "is_tf32_supported": lambda: True,
        "can_device_access_peer": lambda device, peer_device: False,
        "mem_get_info": lambda device=None: memory.mem_get_info(gpu),
        "ipc_collect": nothing.nothing,
        "set_per_process_memory_fraction": nothing.nothing,
        "get_per_process_memory_fraction": lambda device=None: 1.0,
        "get_sync_debug_mode": lambda: 0,
        "set_sync_debug_mode": lambda debug_mode: say_once(SYNC_DEBUG_MODE),
        "get_allocator_backend": lambda: "native",
        "default_generators": (torch.default_generator,),
        "_sleep": lambda cycles: accelerator.sleep(cycles / CYCLES_PER_US / 1e3),
        "cudart": lambda: Runtime(gpu),
        "check_error": nothing.nothing,
        **memory.FUNCTIONS,
        **generators.FUNCTIONS,
        **{f"{name}Tensor": _TensorType(name, (), {"dtype": t}) for name, t in DTYPES.items()},
    }
    return {**_refused(names), **names}


class Runtime:
    """The calls of CUDA's runtime that `torch.cuda.cudart()` offers. They return 0 for success."""

    def __init__(self, gpu: str) -> None:
        self.gpu = gpu

    def cudaProfilerStart(self) -> int:
        return 0

    cudaProfilerStop = cudaProfilerStart

    def cudaHostRegister(self, address: int, nbytes: int, flags: int = 0) -> int:
        """Pins host memory. Raises RuntimeError where CUDA would return an error."""
        register(address, nbytes)
        return 0

    def cudaHostUnregister(self, address: int) -> int:
        """Unpins host memory. Raises RuntimeError if none was registered at `address`."""
        unregister(address)
        return 0

    def cudaMemGetInfo(self, device: int = 0) -> tuple[int, int]:
        return memory.mem_get_info(self.gpu)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cuda"):
            raise AttributeError(name)
        return refusing(f"torch.cuda.cudart().{name}", ELSEWHERE)


def _external(sim: SimDevice, stream_ptr: int, device: Any = None) -> Any:
    """Replaces `torch.cuda.ExternalStream`: returns the stream of sim whose `cuda_stream` is
    `stream_ptr`. Raises NotSimulated if sim has no such stream."""
    check_index(index_of(device))
    if not 0 <= stream_ptr < len(sim.streams.all):
        return refusing("torch.cuda.ExternalStream", NO_LIBRARY)()
    return sim.streams.all[stream_ptr]


def _refused(known: dict[str, object]) -> dict[str, Callable[..., object]]:
    """Returns, for each name in `torch.cuda.__all__` that is neither known nor kept nor a module, a
    function that raises NotSimulated."""
    rest = set(torch.cuda.__all__) - KEPT - set(known)
    return {
        name: refusing(f"torch.cuda.{name}", WHY.get(name, ELSEWHERE))
        for name in sorted(rest)
        if not isinstance(getattr(torch.cuda, name), ModuleType)
    }


DTYPES = {
    "Float": torch.float32,
    "Double": torch.float64,
    **{name: dtype for dtype, name in NAMES.items() if not dtype.is_complex},
}


class _TensorType(type):
    """The metaclass of `torch.cuda.FloatTensor` and related types: a call creates a tensor on
    "cuda", and `isinstance` is True for a CUDA tensor of that dtype."""

    dtype: torch.dtype

    def __call__(cls, *arguments: Any) -> torch.Tensor:
        """Returns an uninitialized tensor of these sizes, or a tensor of these values."""
        if arguments and not isinstance(arguments[0], int):
            return torch.tensor(arguments[0], dtype=cls.dtype, device="cuda")
        return torch.empty(arguments, dtype=cls.dtype, device="cuda")

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, torch.Tensor) and value.is_cuda and value.dtype == cls.dtype


def of_submodule(module: ModuleType, names: dict[str, object]) -> dict[str, object]:
    """Returns those entries of `names` that `module`, a submodule of `torch.cuda`, also has."""
    return {name: value for name, value in names.items() if name in vars(module)}


def generic_names(names: dict[str, object]) -> dict[str, object]:
    """Returns the replacement for `torch.Event`, which takes a device, by its name in `torch`."""
    event = type("Event", (GenericEvent, names["Event"]), {})  # type: ignore[arg-type]  # a class, which the table doesn't say
    return {"Event": event}


def accelerator_names(names: dict[str, object]) -> dict[str, object]:
    """Returns the value of each name in `torch.accelerator` while "cuda" means sim."""
    same = {
        "current_device_index": "current_device",
        "current_device_idx": "current_device",
        "set_device_index": "set_device",
        "set_device_idx": "set_device",
        "get_memory_info": "mem_get_info",
        **{name: name for name in torch.accelerator.__all__ if name in names},
    }
    taken = {name: names[of] for name, of in same.items() if hasattr(torch.accelerator, name)}
    return {
        **taken,
        "current_accelerator": lambda check_available=False: torch.device("cuda"),
        "device_index": type("device_index", (nothing.Device,), {}),
    }
