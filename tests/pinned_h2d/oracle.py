"""Dense attention in float32 with an explicit mask, to compare the kernel with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from debubble.accelerator import current
from solutions.pinned_h2d import Batch, PagedRequests, prefix_attention

Ranges = list[list[tuple[int, int]]]


def holds_both(query, key, start, end):
    """Returns True where query and key are both in the range `start` to `end`, its end included, if
    the range is valid (start < end)."""
    inside = (query >= start) & (query <= end) & (key >= start) & (key <= end)
    return inside & (start < end)


def allowed_pairs(
    positions: range,
    window: int | None,
    spans: list[tuple[int, int]],
    rule: Callable = holds_both,
) -> torch.Tensor:
    """Returns [query_len, kv_len] bool: True for the pairs of query and key that may attend: causal
    within the window, or both in one of `spans`."""
    query = torch.arange(positions.start, positions.stop)[:, None]
    key = torch.arange(positions.stop)[None, :]
    allowed = key <= query
    if window is not None:
        allowed &= query - key < window
    for start, end in spans:
        allowed |= rule(query, key, start, end)
    return allowed


@dataclass
class AttentionCase:
    """A batch of sequences of different lengths, with random queries, and keys and values in
    shuffled blocks of 16."""

    batch: Batch
    query: torch.Tensor
    key_cache: torch.Tensor
    value_cache: torch.Tensor
    scheduled: list[range]
    requests: PagedRequests

    @classmethod
    def random(cls, lengths, heads, head_size, dtype=torch.float32, padding=0) -> AttentionCase:
        """Returns a random case. `lengths` has (query_len, kv_len) of each sequence; `heads` is
        (number of query heads, number of KV heads)."""
        num_heads, num_kv_heads = heads
        scheduled = [range(kv_len - query_len, kv_len) for query_len, kv_len in lengths]
        requests = PagedRequests(len(lengths), max(kv_len for _, kv_len in lengths))
        batch = requests.batch(scheduled, current().device, num_seqs=len(lengths) + padding)
        random = torch.Generator().manual_seed(7)
        cache_shape = (requests.num_blocks, 16, num_kv_heads, head_size)
        query_shape = (batch.num_tokens, num_heads, head_size)
        shapes = (query_shape, cache_shape, cache_shape)
        tensors = [torch.randn(shape, generator=random).to(dtype) for shape in shapes]
        return cls(batch, *tensors, scheduled, requests)

    def attention(self, ranges: torch.Tensor | None = None, **options) -> torch.Tensor:
        """Returns the kernel's result, on the CPU as float32."""
        device = current().device
        tensors = (self.query, self.key_cache, self.value_cache)
        on_device = [tensor.to(device) for tensor in tensors]
        return prefix_attention(*on_device, self.batch, ranges=ranges, **options).cpu().float()

    def oracle(
        self,
        ranges: Ranges | None = None,
        window: int | None = None,
        rule: Callable = holds_both,
    ) -> torch.Tensor:
        """Returns the expected result, [num_tokens, num_heads, head_size] float32."""
        group = self.query.shape[1] // self.key_cache.shape[2]
        outputs, first = [], 0
        for i, positions in enumerate(self.scheduled):
            query = self.query[first : first + len(positions)].float()
            first += len(positions)
            blocks = torch.from_numpy(self.requests.blocks[i])
            key, value = (
                cache[blocks].flatten(0, 1)[: positions.stop].float().repeat_interleave(group, 1)
                for cache in (self.key_cache, self.value_cache)
            )
            scores = torch.einsum("qhd,khd->hqk", query, key) * query.shape[-1] ** -0.5
            allowed = allowed_pairs(positions, window, ranges[i] if ranges else [], rule)
            weights = scores.masked_fill(~allowed, float("-inf")).softmax(-1)
            outputs.append(torch.einsum("hqk,khd->qhd", weights, value))
        return torch.cat(outputs)


def padded(ranges: Ranges, capacity: int | None = None, num_seqs: int | None = None):
    """Returns the ranges as [num_seqs, capacity, 2] int32 on the device, filled by two loops;
    unused places are (0, 0)."""
    capacity = capacity or max(len(spans) for spans in ranges)
    table = torch.zeros(num_seqs or len(ranges), capacity, 2, dtype=torch.int32)
    for row, spans in enumerate(ranges):
        for column, span in enumerate(spans):
            table[row, column] = torch.tensor(span)
    return table.to(current().device)
