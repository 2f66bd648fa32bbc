"""Multimodal prefix ranges: one pinned upload a step instead of one per layer and request.

Read in this order: ranges, batch, before, metadata, staging_ring, range_buffer, runner, attention,
attention_kernel; then config, model and step, which run it all, and bench, which measures it. The
katas begin with first_attempts.
"""

# First, since it settles whether Triton compiles or interprets: it must know before its import.
import debubble.accelerator  # noqa: F401

from .attention import prefix_attention
from .batch import Batch, PagedRequests
from .config import StepConfig
from .metadata import NOT_COMPUTED, TritonAttentionMetadata, compute_mm_prefix_range_tensor
from .range_buffer import PrefixRangeBuffer
from .ranges import PrefixRanges, check_ranges
from .runner import ModelRunner, range_tensors_by_micro_batch
from .staging_ring import StagingRing
from .step import Engine

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
