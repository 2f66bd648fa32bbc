"""The engine's model in plain PyTorch, on the CPU and without a cache: slow, short, and right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F

from solutions.pinned_h2d.ranges import Span

from ..requests.request import SamplingParams
from .config import ModelConfig
from .layers import Layer
from .model import Model


class Reference:
    """The decoder of `model` in plain PyTorch, with a float32 copy of its weights on the CPU. Each
    token of an answer recomputes all tokens before it."""

    def __init__(self, model: Model) -> None:
        self.config = model.config.model
        self.mask_of = model.mask_of
        self.weights = _on_cpu(model)
        self.layers = {
            name: (layer.kind, _on_cpu(layer), _on_cpu(layer.mlp), _delta_net(layer))
            for name, layer in model.layers.items()
        }

    def generate(
        self, prompt: Sequence[int], sampling: SamplingParams, images: Sequence[Span] = ()
    ) -> list[int]:
        """Returns the greedy answer to a prompt. Of `sampling` it heeds max_tokens, stop_token and
        bad_words."""
        generated: list[int] = []
        while len(generated) < sampling.max_tokens:
            logits = self.logits([*prompt, *generated], images)[-1]
            for *before, last in sampling.bad_words:
                if generated[len(generated) - len(before) :] == before:
                    logits[last] = -torch.inf
            generated.append(int(logits.argmax()))
            if generated[-1] == sampling.stop_token:
                break
        return generated

    def logits(self, token_ids: Sequence[int], images: Sequence[Span] = ()) -> torch.Tensor:
        """Returns [len(token_ids), vocab_size], the logits after each token."""
        hidden = self.weights["embedding"][torch.tensor(token_ids)]
        for name, (kind, weights, mlp, delta_net) in self.layers.items():
            if kind == "gdn":
                normed = self._norm(hidden, weights["norm"])
                hidden = hidden + gated_delta_net(normed, delta_net, self.config)
            else:
                spans = images if kind == "spans" else ()
                window = self.mask_of[name].sliding_window if kind == "flex" else None
                allowed = allowed_pairs(len(hidden), window, spans)
                normed = self._norm(hidden, weights["attention_norm"])
                hidden = hidden + attention(normed, weights, allowed, self.config)
            gate, up = (self._norm(hidden, mlp["norm"]) @ mlp["gate_up_proj"].T).chunk(2, dim=1)
            hidden = hidden + (F.silu(gate) * up) @ mlp["down_proj"].T
        return self._norm(hidden, self.weights["final_norm"]) @ self.weights["lm_head"].T

    def _norm(self, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(hidden, weight.shape, weight, self.config.norm_eps)


def allowed_pairs(num_tokens: int, window: int | None, images: Sequence[Span]) -> torch.Tensor:
    """Returns [num_tokens, num_tokens] bool: True where a query (row) may attend to a key (column),
    which is causal and within the window, or in the same image."""
    query, key = torch.arange(num_tokens)[:, None], torch.arange(num_tokens)[None]
    allowed = key <= query
    if window is not None:
        allowed &= query - key < window
    for start, end in images:
        inside = (torch.arange(num_tokens) >= start) & (torch.arange(num_tokens) <= end)
        allowed |= inside[:, None] & inside[None]
    return allowed


def attention(
    normed: torch.Tensor,
    weights: Mapping[str, torch.Tensor],
    allowed: torch.Tensor,
    config: ModelConfig,
) -> torch.Tensor:
    """Returns the attention output [T, hidden_size] for `normed` [T, hidden_size]."""
    heads = (normed @ weights["qkv_proj"].T).unflatten(1, (-1, config.head_size)).transpose(0, 1)
    query, key, value = heads.split([config.num_heads, *[config.num_kv_heads] * 2])
    group = config.num_heads // config.num_kv_heads
    query, key = _rotated(query, config), _rotated(key, config).repeat_interleave(group, 0)
    scores = query @ key.mT * config.head_size**-0.5
    attended = scores.masked_fill(~allowed, -torch.inf).softmax(-1)
    attended = attended @ value.repeat_interleave(group, 0)
    return attended.transpose(0, 1).flatten(1) @ weights["o_proj"].T


def _rotated(heads: torch.Tensor, config: ModelConfig) -> torch.Tensor:
    """Returns `heads` [heads, T, head_size] with each pair (i, i + head_size / 2) turned by its
    position."""
    half = config.head_size // 2
    frequency = config.rope_theta ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = torch.arange(heads.shape[1], dtype=torch.float64)[:, None] * frequency
    cos, sin = angle.cos().float(), angle.sin().float()
    first, second = heads.split(half, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


def gated_delta_net(
    normed: torch.Tensor, weights: Mapping[str, torch.Tensor], config: ModelConfig
) -> torch.Tensor:
    """Returns the output of Gated DeltaNet, [T, hidden_size], for `normed` [T, hidden_size]: token
    by token, from a state of zeros."""
    gdn = config.gdn(num_slots=1)
    sizes = [gdn.conv_dim, gdn.value_size]
    qkv, z = (normed @ weights["in_proj_qkvz"].T).split(sizes, dim=1)
    b, a = (normed @ weights["in_proj_ba"].T).chunk(2, dim=1)
    padded = F.pad(qkv, (0, 0, gdn.conv_width - 1, 0))
    taps = padded.unfold(0, gdn.conv_width, 1)  # [T, conv_dim, conv_width]
    qkv = F.silu((taps * weights["conv_weight"]).sum(-1))
    q, k, v = qkv.split([gdn.key_size, gdn.key_size, gdn.value_size], dim=1)
    group = gdn.num_v_heads // gdn.num_k_heads
    q, k = (
        F.normalize(part.unflatten(1, (gdn.num_k_heads, -1)), dim=-1, eps=0.0).repeat_interleave(
            group, 1
        )
        for part in (q, k)
    )
    v, z = (part.unflatten(1, (gdn.num_v_heads, -1)) for part in (v, z))
    decay = (-weights["A_log"].exp() * F.softplus(a + weights["dt_bias"])).exp()
    beta = b.sigmoid()
    state = torch.zeros(gdn.num_v_heads, gdn.head_v_dim, gdn.head_k_dim)
    outputs = []
    for at in range(len(normed)):
        state = state * decay[at, :, None, None]
        seen = (state @ k[at, :, :, None])[..., 0]
        change = (v[at] - seen) * beta[at, :, None]
        state = state + change[:, :, None] * k[at, :, None]
        outputs.append((state @ q[at, :, :, None])[..., 0] * gdn.head_k_dim**-0.5)
    heads = F.rms_norm(
        torch.stack(outputs), (gdn.head_v_dim,), weights["norm_weight"], gdn.norm_eps
    )
    return (heads * F.silu(z)).flatten(1) @ weights["out_proj"].T


def _on_cpu(owner: object) -> dict[str, torch.Tensor]:
    return {
        name: value.cpu().float()
        for name, value in vars(owner).items()
        if isinstance(value, torch.Tensor)
    }


def _delta_net(layer: Layer) -> dict[str, torch.Tensor]:
    return _on_cpu(layer.delta_net) if layer.kind == "gdn" else {}
