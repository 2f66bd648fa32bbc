"""KV blocks between host and device memory, by a kernel where that beats the copy engine
(vLLM #42212).

swap_blocks copies lists of small pieces: descriptors says what a list may hold, merging makes it
shorter, reach what its addresses belong to. swap_blocks_kernel is one launch over all chunks, dma
the driver's batch of copies. selection chooses between the paths by a crossover, which calibration
measures; presets and upstream_scheme, with job_kernel, are how upstream chooses and copies.

kv_tensors, host_memory and block_addresses say where blocks lie, handler moves them, a transfer at
a time, with descriptor_buffers, and before is how it did. lru_blocks knows which blocks the host
holds. model and serving generate tokens with it, bench and grid measure, and kernel_steps is how
the kernel came about. select_path, copy_pieces and block_transfers stand by themselves, and so do
the parts as they were in first_attempts: the katas ask for them.
"""

# First, since it settles whether Triton compiles or interprets: it must know before its import.
from debubble.contract.triton_mode import missing_triton

from .choice.crossover import Crossover
from .choice.presets import UPSTREAM, Preset
from .dma import copy_batch
from .handler import SingleDirectionOffloadingHandler
from .memory.host_memory import pinned_blocks, registered
from .memory.kv_tensors import KVGroup, KVTensors
from .memory.lru_blocks import LRUBlockManager, StorePlan, prefix_hashes
from .paths.descriptors import DescriptorPool, Descriptors, merge_adjacent
from .transfers import Transfer, TransferResult

try:
    from .choice.upstream_scheme import swap_with_preset
    from .swap_blocks import Launch, launch_swap, swap_blocks_batch
except ModuleNotFoundError as error:
    if error.name != "triton":
        raise

__all__ = [
    "UPSTREAM",
    "Crossover",
    "DescriptorPool",
    "Descriptors",
    "KVGroup",
    "KVTensors",
    "LRUBlockManager",
    "Launch",
    "Preset",
    "SingleDirectionOffloadingHandler",
    "StorePlan",
    "Transfer",
    "TransferResult",
    "copy_batch",
    "launch_swap",
    "merge_adjacent",
    "pinned_blocks",
    "prefix_hashes",
    "registered",
    "swap_blocks_batch",
    "swap_with_preset",
]


def __getattr__(name: str) -> object:
    """Without Triton the copy engine still copies, and the katas without kernels pass."""
    if name in __all__:
        raise ImportError(missing_triton(f"solutions.offload.{name}"))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
