"""Eight places where the host waited for the device in every step, and waits no more.

First h2d, packed_upload and read_back, which the others share. Then the eight sites, each beside
its twin in `before`: token_types, kv_sharing, bad_words, logprobs, penalties, ngram, causal_conv1d,
data_parallel. A whole step that meets them all is in config, workload, tables, step_inputs, model,
separate_sites, packed_sites and step, and bench measures it. overlapped_loop and sync_detector
stand by themselves.
"""

# First, since it settles whether Triton compiles or interprets: it must know before its import.
from debubble.contract.triton_mode import missing_triton
from solutions.common.h2d import async_tensor_h2d
from solutions.common.packed_upload import upload_packed, upload_plans
from solutions.common.read_back import ReadBack

from .katas.overlapped_loop import DecodeLoop
from .katas.sync_detector import SyncDetector, allow_waits
from .model.ngram_batch import NgramBatch
from .packed.bad_words import apply_bad_words
from .packed.conv_metadata import ConvMetadata, prepare_conv_metadata
from .packed.token_types import _init_model_kwargs
from .sites.data_parallel import Agreement, _run_ar, agreement_of
from .sites.kv_sharing import _prepare_kv_sharing_fast_prefill

try:
    from .kernels.causal_conv1d import causal_conv1d_fn
    from .model.config import StepConfig
    from .model.data_parallel_group import DataParallelGroup
    from .packed.logprobs import (
        LogprobsTensors,
        compute_token_logprobs,
        compute_token_ranks,
        gather_specific_token_logprobs,
    )
    from .packed.ngram import update_ngram_gpu_tensors_incremental
    from .packed.penalties import bincount
    from .step import DecodeStep
except ModuleNotFoundError as error:
    if error.name != "triton":
        raise

__all__ = [
    "Agreement",
    "ConvMetadata",
    "DataParallelGroup",
    "DecodeLoop",
    "DecodeStep",
    "LogprobsTensors",
    "NgramBatch",
    "ReadBack",
    "StepConfig",
    "SyncDetector",
    "_init_model_kwargs",
    "_prepare_kv_sharing_fast_prefill",
    "_run_ar",
    "agreement_of",
    "allow_waits",
    "apply_bad_words",
    "async_tensor_h2d",
    "bincount",
    "causal_conv1d_fn",
    "compute_token_logprobs",
    "compute_token_ranks",
    "gather_specific_token_logprobs",
    "prepare_conv_metadata",
    "update_ngram_gpu_tensors_incremental",
    "upload_packed",
    "upload_plans",
]


def __getattr__(name: str) -> object:
    """Without Triton the sites that have no kernel can be imported, and the katas pass."""
    if name in __all__:
        raise ImportError(missing_triton(f"solutions.sync_free.{name}"))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
