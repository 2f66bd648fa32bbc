"""The definition of attention: whole requests, all their keys, float32, and no pages."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import torch

from solutions.flex_graph.mask import CAUSAL, Mask
from solutions.flex_graph.model.config import FlexConfig

from .reference_model import allowed_pairs, rotated


class DenseAttention:
    """Dense attention that keeps the queries, keys and values of all tokens of every request."""

    def __init__(self, config: FlexConfig, mask: Mask = CAUSAL) -> None:
        self.config, self.mask = config, mask
        self.known: WeakKeyDictionary = WeakKeyDictionary()

    def attend(self, scheduled, qkv: torch.Tensor) -> torch.Tensor:
        """Returns the attention outputs, [T, num_heads * head_size] float32, of a step with
        queries, keys and values `qkv` [T, qkv_size] on the host. `scheduled` lists the step's
        requests, each with the positions of its new tokens."""
        sizes = [len(positions) for _, positions in scheduled]
        rows = []
        for (request, positions), new in zip(scheduled, qkv.split(sizes), strict=True):
            self.known[request] = torch.cat([self._known(request, new), new])
            assert len(self.known[request]) == positions.stop
            rows.append(self._whole(self.known[request])[positions.start :])
        return torch.cat(rows)

    def _known(self, request, like: torch.Tensor) -> torch.Tensor:
        if request in self.known:
            return self.known[request]
        if request.parent is None:
            return like[:0]
        return self._known(request.parent, like)[: request.shared]

    def _whole(self, qkv: torch.Tensor) -> torch.Tensor:
        config = self.config
        heads = qkv.unflatten(1, (-1, config.head_size)).transpose(0, 1)
        num_heads, num_kv_heads = config.num_heads, config.num_kv_heads
        query, key, value = heads.split([num_heads, num_kv_heads, num_kv_heads])
        # Keys are stored rounded to their type.
        query, key = (rotated(t, config.rope_theta).to(qkv.dtype).float() for t in (query, key))
        shared = num_heads // num_kv_heads
        scores = query @ key.repeat_interleave(shared, 0).mT * config.head_size**-0.5
        scores.masked_fill_(~allowed_pairs(self.mask, len(qkv)), -torch.inf)
        # A query that sees no key has the result 0.
        weights = scores.softmax(-1).nan_to_num(0.0)
        attended = weights @ value.float().repeat_interleave(shared, 0)
        return attended.transpose(0, 1).flatten(1)
