"""Multimodal prefix ranges: one pinned upload a step instead of one per layer and request.

Read in this order: ranges, batch, before, metadata, staging_ring, range_buffer, runner, attention,
attention_kernel; then config, model and step, which run it all, and bench, which measures it. The
katas begin with first_attempts.
"""

# First, since it settles whether Triton compiles or interprets: it must know before its import.
from debubble.contract.triton_mode import missing_triton
from solutions.common.staging_ring import StagingRing

from .metadata import NOT_COMPUTED, TritonAttentionMetadata, compute_mm_prefix_range_tensor
from .model.batch import Batch, PagedRequests
from .model.config import StepConfig
from .range_buffer import PrefixRangeBuffer
from .ranges import PrefixRanges, check_ranges
from .runner import ModelRunner, range_tensors_by_micro_batch

try:
    from .model.attention import prefix_attention
    from .step import Engine
except ModuleNotFoundError as error:
    if error.name != "triton":
        raise

__all__ = [
    "NOT_COMPUTED",
    "Batch",
    "Engine",
    "ModelRunner",
    "PagedRequests",
    "PrefixRangeBuffer",
    "PrefixRanges",
    "StagingRing",
    "StepConfig",
    "TritonAttentionMetadata",
    "check_ranges",
    "compute_mm_prefix_range_tensor",
    "prefix_attention",
    "range_tensors_by_micro_batch",
]


def __getattr__(name: str) -> object:
    """Without Triton all but the attention can be imported, and the katas pass."""
    if name in __all__:
        raise ImportError(missing_triton(f"solutions.pinned_h2d.{name}"))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
