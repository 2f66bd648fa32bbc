"""Eight places where the host waited for the device in every step, and no longer waits.

README.md says in which order to read the files; this file has the public names.
"""

# Imported first: it settles whether Triton compiles or interprets, which Triton reads when it is
# imported.
from debubble.contract.packages.triton_mode import refusing_without_triton
from solutions.common.h2d import async_tensor_h2d
from solutions.common.packed_upload import upload_packed, upload_plans
from solutions.common.read_back import ReadBack

from .katas.overlapped_loop import DecodeLoop
from .katas.sync_detector import SyncDetector, allow_waits
from .model.conv_chunks import ConvMetadata, prepare_conv_metadata
from .model.ngram_batch import NgramBatch
from .model.ranks import Agreement, agreement_of
from .sites.bad_words import apply_bad_words
from .sites.clear_rows import clear_rows
from .sites.data_parallel import _run_ar
from .sites.kv_sharing import _prepare_kv_sharing_fast_prefill
from .sites.token_types import _init_model_kwargs

try:
    from .kernels.logprobs import LogprobsTensors, compute_token_logprobs, compute_token_ranks
    from .model.config import StepConfig
    from .model.data_parallel_group import DataParallelGroup
    from .sites.causal_conv1d import causal_conv1d_fn
    from .sites.logprobs import gather_specific_token_logprobs
    from .sites.ngram import update_ngram_gpu_tensors_incremental
    from .sites.penalties import bincount
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
    "clear_rows",
    "compute_token_logprobs",
    "compute_token_ranks",
    "gather_specific_token_logprobs",
    "prepare_conv_metadata",
    "update_ngram_gpu_tensors_incremental",
    "upload_packed",
    "upload_plans",
]

__getattr__ = refusing_without_triton(__name__, __all__)
