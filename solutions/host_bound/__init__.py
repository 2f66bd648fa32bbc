"""The bubble that the host computes: kernels compiled in the middle of a request, metadata built
once for each KV group, and more launches than the host can make in time.

`before` has the server as one first writes it; `step` has the same server, warmed up and ready to
replay.
"""

from .batch import Metadata, StepRequests
from .buckets import bucket_for, buckets_up_to, warm_up
from .fused import FusedServer
from .kernels import store_tokens
from .metadata import SharedBuilder
from .step import StepServer

__all__ = [
    "FusedServer",
    "Metadata",
    "SharedBuilder",
    "StepRequests",
    "StepServer",
    "bucket_for",
    "buckets_up_to",
    "store_tokens",
    "warm_up",
]
