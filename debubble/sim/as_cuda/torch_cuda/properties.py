"""The data-sheet properties of the GPUs that sim is modelled on, by the calibration's GPU name."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

from ...memory.blocks import IN_USE
from ..refusing import NotSimulated

GIB = 1 << 30


@dataclass(frozen=True)
class Properties:
    """The fields of `torch.cuda.get_device_properties` that scripts read."""

    name: str
    total_memory: int
    L2_cache_size: int
    major: int = 9
    minor: int = 0
    multi_processor_count: int = 132
    warp_size: int = 32
    max_threads_per_multi_processor: int = 2048
    max_threads_per_block: int = 1024
    regs_per_multiprocessor: int = 65536
    shared_memory_per_block: int = 48 << 10
    shared_memory_per_block_optin: int = 227 << 10
    shared_memory_per_multiprocessor: int = 228 << 10
    is_integrated: int = 0
    is_multi_gpu_board: int = 0
    gcnArchName: str = ""


KNOWN = (
    Properties("NVIDIA H200", int(139.8 * GIB), 60 << 20),
    Properties("NVIDIA H100 80GB HBM3", int(79.1 * GIB), 50 << 20),
)


def properties_of(gpu: str) -> Properties:
    """Returns the properties of the GPU named `gpu`. Its memory is at most what this machine holds.

    Raises NotSimulated for a GPU that has a calibration but no entry in `KNOWN`."""
    for known in KNOWN:
        if known.name == gpu:
            return replace(known, total_memory=min(known.total_memory, IN_USE.limit or sys.maxsize))
    names = " and ".join(known.name for known in KNOWN)
    raise NotSimulated(
        f"the properties of {gpu!r} can't be simulated: a calibration holds times alone, and "
        f"{names} are the GPUs whose data sheets are known here"
    )
