"""A model with only cache writes and attentions, batches of any kind for it, and the results of
dense attention."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from solutions.common.decoder.kv_cache import KVCache
from solutions.common.decoder.rotate_and_cache import cos_sin_table
from solutions.flex_graph.mask import CAUSAL, Mask
from solutions.flex_graph.model.attention import FlexAttention
from solutions.flex_graph.model.config import FlexConfig
from solutions.flex_graph.runner import GraphRunner
from solutions.flex_graph.steps.limits import Limits

from .dense import DenseAttention
from .serving import Serving

LIMITS = Limits(
    max_num_seqs=4, max_num_batched_tokens=16, max_model_len=48, num_gpu_blocks=16, block_size=16
)
"""Limits with one group of tokens and three pages a request: a build takes 0.1 s on sim."""
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 2e-2}
FLOAT32 = {"float32": (torch.float32, CAUSAL)}
BOTH_TYPES = FLOAT32 | {"bfloat16": (torch.bfloat16, CAUSAL)}

Kinds = Mapping[str, tuple[torch.dtype, Mask]]
"""The type of the layers' description: {layer name: (dtype, mask)}."""


class AttentionOnly:
    """A model of attention layers only, with no weights. Its layers are independent: each reads its
    own queries, keys and values in `qkv`, as a projection would have left them."""

    def __init__(self, limits: Limits, device: torch.device, kinds: Kinds = FLOAT32) -> None:
        self.config = config = FlexConfig.tiny()
        self.mask_of = {name: mask for name, (_, mask) in kinds.items()}
        cos_sin = cos_sin_table(limits.max_model_len, config.head_size, config.rope_theta, device)
        self.attentions, self.qkv = {}, {}
        rows, sizes = limits.max_num_batched_tokens, (config.num_kv_heads, config.head_size)
        for name, (dtype, _) in kinds.items():
            cache = KVCache(limits.num_gpu_blocks, limits.block_size, *sizes, dtype, device)
            self.attentions[name] = FlexAttention(config.num_heads, cache, cos_sin)
            self.qkv[name] = torch.zeros(rows, config.qkv_size, dtype=dtype, device=device)

    def forward(self, inputs, attn_metadata) -> torch.Tensor:
        """Returns the outputs of all layers beside each other, [T, sum of query sizes], in the
        widest of their dtypes. The runner takes them for logits."""
        rows = slice(len(inputs.positions))
        attended = [
            attention.forward(self.qkv[name][rows], inputs, attn_metadata[name])
            for name, attention in self.attentions.items()
        ]
        return torch.cat(attended, dim=1)

    def tensors(self) -> list[torch.Tensor]:
        caches = [attention.cache for attention in self.attentions.values()]
        return [*self.qkv.values(), *(c.key for c in caches), *(c.value for c in caches)]


class Served:
    """A GraphRunner of an AttentionOnly model, random batches for it, and the expected results,
    computed by dense attention."""

    def __init__(
        self,
        accelerator,
        runner_class: type[GraphRunner] = GraphRunner,
        *,
        model_class: type[AttentionOnly] = AttentionOnly,
        limits: Limits = LIMITS,
        kinds: Kinds = FLOAT32,
        seed: int = 0,
        **options,
    ) -> None:
        self.limits, self.kinds = limits, kinds
        self.model = model_class(limits, accelerator.device, kinds)
        options = {"capture_sizes": [limits.max_num_batched_tokens]} | options
        self.runner = runner_class(self.model, limits, accelerator.device, **options)
        self.serving = Serving(limits, seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.dense = {
            name: DenseAttention(self.model.config, mask) for name, (_, mask) in kinds.items()
        }

    def next_step(self):
        """Returns (next batch, its expected results by layer), and writes the batch's queries, keys
        and values to the model."""
        batch, scheduled = self.serving.next_step(self.limits.max_num_batched_tokens)
        return batch, self.expected(scheduled)

    def expected(self, scheduled) -> dict[str, torch.Tensor]:
        """Returns the expected results by layer, [T, query_size] float32 on the host."""
        num_tokens = sum(len(positions) for _, positions in scheduled)
        shape, expected = (num_tokens, self.model.config.qkv_size), {}
        for name, (dtype, _) in self.kinds.items():
            qkv = torch.randn(shape, generator=self.generator).mul_(0.7).clamp_(-2, 2).to(dtype)
            self.model.qkv[name][:num_tokens].copy_(qkv)
            expected[name] = self.dense[name].attend(scheduled, qkv)
        return expected

    def is_right(self, found: torch.Tensor, expected: Mapping[str, torch.Tensor]) -> bool:
        """Returns True if all layers are within their type's tolerance."""
        of_layers = found.cpu().chunk(len(expected), dim=1)
        return all(
            bool(((of_layer - right).abs() < TOLERANCE[self.kinds[name][0]]).all())
            for of_layer, (name, right) in zip(of_layers, expected.items(), strict=True)
        )

    def steps(self, number: int) -> list[bool]:
        """Runs the next `number` steps, and returns for each step True if its result was right."""
        found = []
        for _ in range(number):
            batch, expected = self.next_step()
            found.append(self.is_right(self.runner.step(batch), expected))
        return found
