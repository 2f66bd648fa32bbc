"""A Gated DeltaNet layer, made of projections, a short convolution and both forms of the delta
rule; and a model of such layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from solutions.sync_free.sites.causal_conv1d import causal_conv1d_fn

from ..metadata import GDNAttentionMetadata
from ..rule.chunk_gated_delta_rule import chunk_gated_delta_rule
from ..rule.recurrent import fused_recurrent_gated_delta_rule
from .config import GDNConfig
from .conv_update import causal_conv1d_update
from .delta_inputs import DeltaInputs
from .gated_norm import gated_rms_norm
from .gating import fused_gdn_gating

ACTIVATION = "silu"
"""Name of the activation after the short convolution."""


@dataclass(frozen=True)
class GDNState:
    """The states of one layer for all sequences: each sequence's are in its slot."""

    conv_states: torch.Tensor
    """[num_slots, conv_dim, conv_width - 1], channels contiguous: the last inputs of the short
    convolution."""
    ssm_states: torch.Tensor
    """[num_slots, num_v_heads, head_v_dim, head_k_dim] float32: the states of the delta rule."""

    @classmethod
    def zeros(cls, config: GDNConfig, device: torch.device) -> GDNState:
        inputs = (config.num_slots, config.conv_width - 1, config.conv_dim)
        heads = (config.num_slots, config.num_v_heads, config.head_v_dim, config.head_k_dim)
        return cls(
            torch.zeros(inputs, dtype=config.dtype, device=device).transpose(1, 2),
            torch.zeros(heads, dtype=torch.float32, device=device),
        )


class GDNLayer:
    """One Gated DeltaNet layer, with random weights from PyTorch's current seed: everything between
    two residual sums except the norm before it. The layer has no state itself: a GDNState has
    it."""

    def __init__(self, config: GDNConfig, device: torch.device) -> None:
        self.config = config
        self.chunk_gated_delta_rule = chunk_gated_delta_rule
        """The function that computes the delta rule for prefills. Another function with the same
        signature may replace it."""
        self.causal_conv1d_fn = causal_conv1d_fn
        """The function that computes the short convolution in batches with prefills. Another
        function with the same signature may replace it."""

        def weight(*shape: int, scale: float, dtype: torch.dtype = config.dtype) -> torch.Tensor:
            return torch.randn(shape, dtype=dtype, device=device).mul_(scale)

        hidden_size, value_size = config.hidden_size, config.value_size
        num_heads, into = config.num_v_heads, hidden_size**-0.5
        self.in_proj_qkvz = weight(config.conv_dim + value_size, hidden_size, scale=into)
        self.in_proj_ba = weight(2 * num_heads, hidden_size, scale=into)
        self.conv_weight = weight(config.conv_dim, config.conv_width, scale=0.5)
        # Some heads forget within a token, and some remember hundreds of tokens.
        self.A_log = weight(num_heads, scale=2.0, dtype=torch.float32).sub_(2.0)
        self.dt_bias = weight(num_heads, scale=0.5)
        self.norm_weight = weight(config.head_v_dim, scale=0.1).add_(1.0)
        self.out_proj = weight(hidden_size, value_size, scale=value_size**-0.5)

    def forward(
        self, hidden: torch.Tensor, metadata: GDNAttentionMetadata, state: GDNState
    ) -> torch.Tensor:
        """Runs the layer on `hidden` [T, hidden_size] and returns the same shape. Changes the
        states of the batch's sequences in place.

        Nothing is uploaded, and nothing waits (vLLM #38361). A graph's batch may have rows after
        the batch's tokens: they change no state, and come out as zeros if they came in finite.
        Raises ValueError if there are fewer rows than tokens.
        """
        config = self.config
        _check_hidden(hidden, config.hidden_size, metadata.num_actual_tokens)
        qkvz = F.linear(hidden, self.in_proj_qkvz)
        b, a = F.linear(hidden, self.in_proj_ba).chunk(2, dim=1)
        gates = fused_gdn_gating(self.A_log, a, b, self.dt_bias)
        qkv, z = qkvz.split([config.conv_dim, config.value_size], dim=1)
        heads = self._heads(DeltaInputs(qkv, *gates), metadata, state)
        z = z.unflatten(1, (-1, config.head_v_dim))
        normed = gated_rms_norm(heads, z, self.norm_weight, config.norm_eps)
        return F.linear(normed.flatten(1), self.out_proj)

    def _heads(
        self, inputs: DeltaInputs, metadata: GDNAttentionMetadata, state: GDNState
    ) -> torch.Tensor:
        """Returns the delta rule's output for each token, [T, num_v_heads, head_v_dim], in the
        order of the tokens, with zeros after the last token."""
        if not metadata.num_prefills:
            # These kernels themselves give zeros to the rows after the last sequence.
            return self._token_by_token(inputs, metadata, state)
        num_rows, num_tokens = len(inputs.qkv), metadata.num_actual_tokens
        speculative, others = metadata.spec_token_indices, metadata.non_spec_token_indices
        if speculative is None or others is None:
            if num_rows == num_tokens:
                return self._with_prefills(inputs, metadata, state)
            heads = self._with_prefills(inputs.rows(0, num_tokens), metadata, state)
            return F.pad(heads, (0, 0, 0, 0, 0, num_rows - num_tokens))
        kinds = ((speculative, self._token_by_token), (others, self._with_prefills))
        shape = (num_rows, self.config.num_v_heads, self.config.head_v_dim)
        heads = torch.zeros(shape, dtype=inputs.qkv.dtype, device=inputs.qkv.device)
        for token_indices, step in kinds:
            heads.index_copy_(0, token_indices, step(inputs.at(token_indices), metadata, state))
        return heads

    def _token_by_token(
        self, inputs: DeltaInputs, metadata: GDNAttentionMetadata, state: GDNState
    ) -> torch.Tensor:
        """Returns the delta rule's output, [T, num_v_heads, head_v_dim], for the speculative
        requests' tokens or, if no request is speculative, for a batch of decodes. The starts say
        which requests exist: a replayed graph may have other requests than the captured one."""
        if metadata.num_spec_decodes:
            slots, starts = metadata.spec_state_indices, metadata.spec_query_start_loc
        else:
            slots, starts = metadata.non_spec_state_indices, metadata.non_spec_query_start_loc
        assert slots is not None and starts is not None
        qkv = causal_conv1d_update(
            inputs.qkv,
            self.conv_weight,
            None,
            state.conv_states,
            ACTIVATION,
            slots,
            starts,
            metadata.num_accepted_tokens,
        )
        o, _ = fused_recurrent_gated_delta_rule(
            **inputs.with_qkv(qkv).arguments(self.config),
            initial_state=state.ssm_states,
            cu_seqlens=starts,
            ssm_state_indices=slots,
            num_accepted_tokens=metadata.num_accepted_tokens,
        )
        return o.squeeze(0)

    def _with_prefills(
        self, inputs: DeltaInputs, metadata: GDNAttentionMetadata, state: GDNState
    ) -> torch.Tensor:
        """Returns the delta rule's output, [T, num_v_heads, head_v_dim], for the tokens that are
        not speculative: those of decodes, then those of prefills, of which there is at least
        one."""
        slots, starts = metadata.non_spec_state_indices, metadata.non_spec_query_start_loc
        has_initial_state = metadata.has_initial_state
        assert slots is not None and starts is not None and has_initial_state is not None
        qkv = self.causal_conv1d_fn(
            inputs.qkv,
            self.conv_weight,
            None,
            state.conv_states,
            starts,
            slots,
            has_initial_state,
            ACTIVATION,
            metadata.conv_metadata,
        )
        inputs, num_decodes = inputs.with_qkv(qkv), metadata.num_decode_tokens
        prefills = inputs.rows(num_decodes, len(qkv)) if num_decodes else inputs
        o, _ = self.chunk_gated_delta_rule(
            **prefills.arguments(self.config),
            initial_state=state.ssm_states,
            output_final_state=True,
            cu_seqlens=metadata.prefill_query_start_loc,
            chunk_indices=metadata.chunk_indices,
            chunk_offsets=metadata.chunk_offsets,
            state_indices=metadata.prefill_state_indices,
            has_initial_state=metadata.prefill_has_initial_state,
        )
        if not num_decodes:
            return o.squeeze(0)
        of_decodes, _ = fused_recurrent_gated_delta_rule(
            **inputs.rows(0, num_decodes).arguments(self.config),
            initial_state=state.ssm_states,
            ssm_state_indices=slots[:num_decodes],
        )
        return torch.cat([of_decodes, o], 1).squeeze(0)


class GDNModel:
    """A model of `config.num_layers` Gated DeltaNet layers with random weights, each with an RMS
    norm before it and a residual sum after it. It has no embeddings and no logits."""

    def __init__(self, config: GDNConfig, device: torch.device) -> None:
        torch.manual_seed(config.seed)
        self.config = config
        shape = (config.num_layers, config.hidden_size)
        self.norm_weights = torch.randn(shape, dtype=config.dtype, device=device).mul_(0.1).add_(1)
        self.layers = [GDNLayer(config, device) for _ in range(config.num_layers)]

    def forward(
        self,
        hidden: torch.Tensor,
        metadata: GDNAttentionMetadata,
        states: Sequence[GDNState],
    ) -> torch.Tensor:
        """Runs all layers on `hidden` [T, hidden_size] and returns the same shape. `states` has one
        GDNState for each layer, changed in place."""
        shape, eps = hidden.shape[1:], self.config.norm_eps
        for layer, weight, state in zip(
            self.layers, self.norm_weights.unbind(), states, strict=True
        ):
            normed = F.rms_norm(hidden, shape, weight, eps)
            hidden = hidden + layer.forward(normed, metadata, state)
        return hidden


def _check_hidden(hidden: torch.Tensor, hidden_size: int, num_tokens: int) -> None:
    if hidden.dim() != 2 or hidden.shape[1] != hidden_size:
        raise ValueError(
            f"hidden of shape {list(hidden.shape)}: make it [num_tokens, {hidden_size}]"
        )
    if len(hidden) < num_tokens:
        raise ValueError(
            f"{len(hidden)} rows of hidden for {num_tokens} tokens: give each token a row"
        )
