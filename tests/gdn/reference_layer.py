"""The definition of a Gated DeltaNet layer: one sequence, token by token, in plain PyTorch."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from solutions.gdn.model.layer import GDNLayer

from .oracle import recurrence


class ReferenceLayer:
    """A reference layer with the weights of `layer`, in float32 on the CPU."""

    def __init__(self, layer: GDNLayer) -> None:
        self.config = layer.config
        self.weights = {
            name: value.detach().cpu().float()
            for name, value in vars(layer).items()
            if isinstance(value, torch.Tensor)
        }

    def run(self, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Returns (output [T, hidden_size], conv_state [conv_dim, conv_width - 1], ssm_state [HV,
        V, K]) of a sequence, computed from its first token on."""
        config, weights = self.config, self.weights
        hidden = hidden.detach().cpu().float()
        qkvz = hidden @ weights["in_proj_qkvz"].T
        qkv, z = qkvz[:, : config.conv_dim], qkvz[:, config.conv_dim :]
        b, a = (hidden @ weights["in_proj_ba"].T).split(config.num_v_heads, dim=1)
        g = -weights["A_log"].exp() * F.softplus(a + weights["dt_bias"])

        inputs = torch.cat([torch.zeros(config.conv_width - 1, config.conv_dim), qkv])
        windows = inputs.unfold(0, config.conv_width, 1)
        convolved = F.silu((windows * weights["conv_weight"]).sum(-1))
        key_heads, value_heads = (-1, config.head_k_dim), (-1, config.head_v_dim)
        q, k, v = convolved.split([config.key_size, config.key_size, config.value_size], dim=1)
        o, states = recurrence(
            q.unflatten(1, key_heads)[None],
            k.unflatten(1, key_heads)[None],
            v.unflatten(1, value_heads)[None],
            g[None],
            b.sigmoid()[None],
            l2norm=True,
        )
        norm = (o[0].square().mean(-1, keepdim=True) + config.norm_eps).sqrt()
        normed = o[0] / norm * weights["norm_weight"] * F.silu(z.unflatten(1, value_heads))
        output = normed.flatten(1) @ weights["out_proj"].T
        return output, inputs[len(inputs) - (config.conv_width - 1) :].T, states[0]
