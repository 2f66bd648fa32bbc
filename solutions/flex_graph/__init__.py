"""FlexAttention in one CUDA graph with the whole step around it (vLLM #36298).

limits are a scheduler's maxima; buffers follow from them, and copy_to_persistent fills their parts.
mask says what a token sees, physical_to_logical and direct_build what that means for the blocks of
a paged cache, in PyTorch's operators. device_build does the same by three launches, into memory
that stays; batch, metadata and builder are around it, and before is how it was. config, model,
layer, attention, kv_cache, rotary, rotate_and_cache, add_rms_norm and silu_and_mul are a decoder.
scheduled, workload and inputs are what a step is given; runner captures and replays steps, with
capture_sizes and profile_batch, piecewise leaves attention out, mask_once the metadata. step has
all of them, bench measures them, and step_limits what they are held against. pages_picture is
drawn in the chapter. persistent_metadata, warm_up, replay and layer_masks stand by themselves, and
so does what they were in first_attempts: the katas ask for them.
"""

# First, since it settles whether Triton compiles or interprets: it must know before its import.
from debubble.contract.triton_mode import missing_triton

from .buffers import PersistentBuffers, buffer_shapes
from .build.physical_to_logical import physical_to_logical_mapping
from .katas.copy_to_persistent import copy_to_persistent
from .mask import BIDIRECTIONAL, CAUSAL, Mask, paged_mask_mod, sliding_window
from .model.config import FlexConfig
from .steps.batch import CommonAttentionMetadata
from .steps.limits import Limits
from .steps.scheduled import ScheduledBatch
from .steps.workload import Requests

try:
    from .builder import FlexAttentionMetadataBuilder
    from .metadata import FlexAttentionMetadata
    from .model.model import Decoder
    from .piecewise import PiecewiseRunner
    from .runner import GraphRunner
    from .step import FlexStep
except ModuleNotFoundError as error:
    if error.name != "triton":
        raise

__all__ = [
    "BIDIRECTIONAL",
    "CAUSAL",
    "CommonAttentionMetadata",
    "Decoder",
    "FlexAttentionMetadata",
    "FlexAttentionMetadataBuilder",
    "FlexConfig",
    "FlexStep",
    "GraphRunner",
    "Limits",
    "Mask",
    "PersistentBuffers",
    "PiecewiseRunner",
    "Requests",
    "ScheduledBatch",
    "buffer_shapes",
    "copy_to_persistent",
    "paged_mask_mod",
    "physical_to_logical_mapping",
    "sliding_window",
]


def __getattr__(name: str) -> object:
    """Without Triton the parts in PyTorch's operators can be imported, and most katas pass."""
    if name in __all__:
        raise ImportError(missing_triton(f"solutions.flex_graph.{name}"))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
