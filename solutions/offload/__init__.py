"""KV blocks between host and device memory: a kernel copies the small ones instead of the copy
engine (vLLM #42212).

README.md tells the story, and says in which order to read the files.
"""

# Imported first: it settles whether Triton compiles or interprets, which Triton reads when it is
# imported.
from debubble.contract.packages.triton_mode import refusing_without_triton

from .choice.crossover import Crossover, cache_path
from .choice.presets import MIN_N, NUM_SMS, THRESHOLD_BYTES, UPSTREAM, Preset
from .dma import copy_batch
from .handler import SingleDirectionOffloadingHandler
from .memory.host_memory import pinned_blocks, registered
from .memory.kv_tensors import KVGroup, KVTensors
from .memory.lru_blocks import LRUBlockManager, StorePlan, prefix_hashes
from .paths.descriptors import DescriptorPool, Descriptors, merge_adjacent
from .paths.descriptors import _new_descriptor_buffers as _new_descriptor_buffers
from .selection import _select_swap_blocks_fn as _select_swap_blocks_fn
from .transfers import Transfer, TransferResult

try:
    from .choice.upstream_scheme import swap_with_preset
    from .swap_blocks import Launch, copy_pieces, launch_swap, swap_blocks_batch
    from .swap_blocks import _swap_blocks_kernel as _swap_blocks_kernel
except ModuleNotFoundError as error:
    if error.name != "triton":
        raise

__all__ = [
    "MIN_N",
    "NUM_SMS",
    "THRESHOLD_BYTES",
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
    "cache_path",
    "copy_batch",
    "copy_pieces",
    "launch_swap",
    "merge_adjacent",
    "pinned_blocks",
    "prefix_hashes",
    "registered",
    "swap_blocks_batch",
    "swap_with_preset",
]

__getattr__ = refusing_without_triton(__name__, {*__all__, "_swap_blocks_kernel"})
