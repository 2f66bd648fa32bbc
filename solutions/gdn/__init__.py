"""Gated DeltaNet prefill whose chunk tables are made once a step, without a wait (vLLM #38361).
README.md says in which order to read the files.
"""

# Imported first: it settles whether Triton compiles or interprets, which Triton reads when it is
# imported.
from debubble.contract.packages.triton_mode import refusing_without_triton

from .host_tables import (
    plan_chunk_tables,
    prepare_chunk_indices,
    prepare_chunk_offsets,
    upload_chunk_tables,
)
from .requests.batch import GDNCommonMetadata as CommonAttentionMetadata  # as in vLLM
from .rule.chunks import FLA_CHUNK_SIZE, ChunkTables

try:
    from .device_tables import prepare_chunk_tables_on_device
    from .metadata import GDNAttentionMetadata, GDNAttentionMetadataBuilder
    from .model.config import GDNConfig
    from .model.conv_update import causal_conv1d_update
    from .model.layer import GDNLayer, GDNModel, GDNState
    from .rule.chunk_gated_delta_rule import chunk_gated_delta_rule
    from .rule.recurrent import fused_recurrent_gated_delta_rule
    from .step import GDNStep
except ModuleNotFoundError as error:
    if error.name != "triton":
        raise

__all__ = [
    "FLA_CHUNK_SIZE",
    "ChunkTables",
    "CommonAttentionMetadata",
    "GDNAttentionMetadata",
    "GDNAttentionMetadataBuilder",
    "GDNConfig",
    "GDNLayer",
    "GDNModel",
    "GDNState",
    "GDNStep",
    "causal_conv1d_update",
    "chunk_gated_delta_rule",
    "fused_recurrent_gated_delta_rule",
    "plan_chunk_tables",
    "prepare_chunk_indices",
    "prepare_chunk_offsets",
    "prepare_chunk_tables_on_device",
    "upload_chunk_tables",
]

__getattr__ = refusing_without_triton(__name__, __all__)
