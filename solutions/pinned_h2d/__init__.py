"""Multimodal prefix ranges (vLLM #38794): one pinned upload a step tells all attention layers where
the images of a prompt lie.

README.md says in which order to read the files. The files call `Engine` and `StepConfig` ImageSteps
and ImageStepConfig, since other lessons have an Engine and a StepConfig too.
"""

# Imported first: it settles whether Triton compiles or interprets, which Triton reads when it is
# imported.
from debubble.contract.packages.triton_mode import refusing_without_triton
from solutions.common.staging_ring import StagingRing

from .metadata import ModelRunner, TritonAttentionMetadata
from .metadata import _set_mm_prefix_range_for_metadata as _set_mm_prefix_range_for_metadata
from .model.batch import Batch, PagedRequests
from .model.config import ImageStepConfig as StepConfig
from .range_buffer import (
    PrefixRangeBuffer,
    compute_mm_prefix_range_tensor,
    range_tensors_by_micro_batch,
)
from .ranges import NOT_COMPUTED, PrefixRanges, check_ranges

try:
    from .model.attention import prefix_attention
    from .step import ImageSteps as Engine
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

__getattr__ = refusing_without_triton(__name__, __all__)
