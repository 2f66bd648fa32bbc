"""FlexAttention in one CUDA graph with the whole step around it (vLLM #36298).

README.md says what that changes, and in which order to read the files.
"""

# Imported first: it settles whether Triton compiles or interprets, which Triton reads when it is
# imported.
from debubble.contract.packages.triton_mode import refusing_without_triton

from .buffers import (
    FlexAttentionMetadata,
    PersistentBuffers,
    buffer_shapes,
    copy_to_persistent,
)
from .mask import BIDIRECTIONAL, CAUSAL, Mask, paged_mask_mod, sliding_window
from .model.config import FlexConfig
from .steps.batch import CommonAttentionMetadata
from .steps.limits import Limits
from .steps.scheduled import ScheduledBatch
from .steps.workload import Requests
from .tables.direct_build import physical_to_logical_mapping

try:
    from .builder import FlexAttentionMetadataBuilder
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

__getattr__ = refusing_without_triton(__name__, __all__)
