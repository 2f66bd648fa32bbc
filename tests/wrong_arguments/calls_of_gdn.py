"""Valid calls of gdn's public functions."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import torch

from solutions import gdn

from .search import Call

TOKENS, SIZE, SLOTS = 5, 16, 4


def calls(accelerator: Any) -> list[Call]:
    device = accelerator.device

    def int32(*values: int) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int32).to(device)

    def tokens(*shape: int) -> torch.Tensor:
        return torch.zeros(1, TOKENS, *shape, device=device)

    starts_cpu = torch.tensor([0, 3, 5])

    def tables() -> dict[str, torch.Tensor]:
        return gdn.upload_chunk_tables(starts_cpu, device)._asdict()

    def rule() -> dict[str, Any]:
        return {
            **{name: tokens(1, SIZE) for name in "qkv"},
            **{"g": tokens(1), "beta": tokens(1), "scale": 0.25},
            "initial_state": torch.zeros(SLOTS, 1, SIZE, SIZE, device=device),
            "cu_seqlens": int32(0, 3, 5),
        }

    def recurrent() -> dict[str, Any]:
        slots = torch.tensor([[0, 1], [2, 3]], dtype=torch.int32).to(device)
        accepted = {"ssm_state_indices": slots, "num_accepted_tokens": int32(1, 1)}
        return rule() | accepted | {"use_qk_l2norm_in_kernel": True}

    def chunked() -> dict[str, Any]:
        slots = {"state_indices": int32(0, 1), "has_initial_state": int32(1, 0).bool()}
        options = {"output_final_state": True, "use_qk_l2norm_in_kernel": True}
        return rule() | tables() | slots | options

    def conv() -> dict[str, Any]:
        return {
            "x": torch.zeros(TOKENS, 2, device=device),
            "weight": torch.ones(2, 3, device=device),
            "bias": torch.ones(2, device=device),
            "conv_states": torch.zeros(SLOTS, 2, 2, device=device),
            "activation": "silu",
            "state_indices": torch.tensor([[0, 1], [2, 3]], dtype=torch.int32).to(device),
            "query_start_loc": int32(0, 3, 5),
            "num_accepted_tokens": int32(1, 1),
        }

    def common() -> dict[str, Any]:
        return {
            "query_start_loc": int32(0, 1, 5),
            "query_start_loc_cpu": torch.tensor([0, 1, 5]),
            "seq_lens": int32(3, 4),
            "seq_lens_cpu": torch.tensor([3, 4]),
            "state_indices": int32(0, 1).unsqueeze(1),
            "num_actual_tokens": TOKENS,
        }

    builder = gdn.GDNAttentionMetadataBuilder(device)

    def build(
        num_accepted_tokens: Any = None, num_decode_draft_tokens_cpu: Any = None, **of_common: Any
    ) -> object:
        batch = gdn.CommonAttentionMetadata(**of_common)
        return builder.build(batch, num_accepted_tokens, num_decode_draft_tokens_cpu)

    build.__signature__ = _signature_of(common, build)  # type: ignore[attr-defined]
    return [
        Call(gdn.chunk_gated_delta_rule, chunked),
        Call(gdn.fused_recurrent_gated_delta_rule, recurrent),
        Call(gdn.causal_conv1d_update, conv),
        Call(
            build,
            lambda: {**common(), "num_accepted_tokens": None, "num_decode_draft_tokens_cpu": None},
            name="GDNAttentionMetadataBuilder.build",
        ),
        Call(
            gdn.GDNAttentionMetadataBuilder,
            lambda: {"device": device, "tables": "host", "ring": None},
        ),
        Call(
            gdn.plan_chunk_tables,
            lambda: {"cu_seqlens": starts_cpu.clone(), "chunk_size": 64, "num_tokens": TOKENS},
        ),
        Call(
            gdn.prepare_chunk_indices, lambda: {"cu_seqlens": starts_cpu.clone(), "chunk_size": 64}
        ),
        Call(
            gdn.prepare_chunk_offsets, lambda: {"cu_seqlens": starts_cpu.clone(), "chunk_size": 64}
        ),
        Call(
            gdn.prepare_chunk_tables_on_device,
            lambda: {
                "cu_seqlens": int32(0, 3, 5),
                "num_tokens": TOKENS,
                "chunk_size": 64,
                "out": gdn.ChunkTables(**tables()),
            },
        ),
        Call(
            gdn.upload_chunk_tables,
            lambda: {"cu_seqlens": starts_cpu.clone(), "device": device, "chunk_size": 64},
        ),
    ]


def _signature_of(common: Any, build: Any) -> Any:
    """Returns a signature of keyword-only parameters: the fields of a batch and the further
    arguments of `build`."""
    import inspect

    names = [field.name for field in fields(gdn.CommonAttentionMetadata)]
    names += ["num_accepted_tokens", "num_decode_draft_tokens_cpu"]
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Signature([inspect.Parameter(name, kind) for name in names])
