"""The inputs of the delta rule: for all tokens of a batch, for a range, or for those of one
kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

import torch

from .config import GDNConfig


class DeltaArguments(TypedDict):
    """Arguments of the delta rule that its chunked and its recurrent form share, as
    `chunk_gated_delta_rule` describes them."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    g: torch.Tensor
    beta: torch.Tensor
    use_qk_l2norm_in_kernel: bool


@dataclass(frozen=True)
class DeltaInputs:
    """Queries, keys, values and gates of the same tokens. `qkv` is [T, conv_dim], before or after
    the short convolution. The gates `g` and `beta` are [1, T, num_v_heads] float32."""

    qkv: torch.Tensor
    g: torch.Tensor
    beta: torch.Tensor

    def rows(self, start: int, end: int) -> DeltaInputs:
        """Returns the inputs of the tokens from `start` to before `end`, as views."""
        gates = (gate[:, start:end] for gate in (self.g, self.beta))
        return DeltaInputs(self.qkv[start:end], *gates)

    def at(self, token_indices: torch.Tensor) -> DeltaInputs:
        """Returns copies of the inputs of the tokens at `token_indices`, which is on the device."""
        gates = (gate.index_select(1, token_indices) for gate in (self.g, self.beta))
        return DeltaInputs(self.qkv.index_select(0, token_indices), *gates)

    def with_qkv(self, qkv: torch.Tensor) -> DeltaInputs:
        """Returns the same gates with another `qkv`, such as that after the convolution."""
        return DeltaInputs(qkv, self.g, self.beta)

    def arguments(self, config: GDNConfig) -> DeltaArguments:
        """Returns these inputs as arguments of the delta rule, in its chunked or its recurrent
        form: q, k and v split into heads."""
        sizes = [config.key_size, config.key_size, config.value_size]
        q, k, v = self.qkv.unsqueeze(0).split(sizes, dim=2)
        return {
            "q": q.unflatten(2, (-1, config.head_k_dim)),
            "k": k.unflatten(2, (-1, config.head_k_dim)),
            "v": v.unflatten(2, (-1, config.head_v_dim)),
            "g": self.g,
            "beta": self.beta,
            "use_qk_l2norm_in_kernel": True,
        }
