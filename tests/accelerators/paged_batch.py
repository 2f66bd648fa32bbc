"""A small batch over a paged KV cache in persistent buffers, and the expected attention."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch.nn.attention.flex_attention import BlockMask

from debubble.accelerator import flex_attention

PAGE = Q_BLOCK = 16
NUM_BLOCKS, MAX_REQUESTS = 12, 4
HEADS, KV_HEADS, HEAD_SIZE = 4, 2, 16


class Request(NamedTuple):
    pages: list[int]
    """The request's blocks of the cache, in order."""
    length: int
    """The number of tokens; the last `new` of them are queries."""
    new: int


def requests_of(num_tokens: int) -> list[Request]:
    """Returns two requests with `num_tokens` query tokens together, or one request for one
    token."""
    if num_tokens == 1:
        return [Request([7, 2], 20, 1)]
    first = num_tokens * 5 // 9
    return [
        Request([7, 2, 11, 4, 9, 6][: -(-(first + 9) // PAGE)], first + 9, first),
        Request([1, 5, 3, 8, 10], num_tokens - first + 2, num_tokens - first),
    ]


class PagedBatch:
    """A batch of requests over a paged KV cache, in tensors that keep their addresses; `fill`
    writes a new batch to the same memory."""

    def __init__(self, accelerator, num_tokens: int, dtype: torch.dtype = torch.float32) -> None:
        device, groups = accelerator.device, -(-num_tokens // Q_BLOCK)

        def integers(*shape: int) -> torch.Tensor:
            return torch.zeros(shape, dtype=torch.int32, device=device)

        def numbers(*shape: int) -> torch.Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        self.num_tokens = num_tokens
        self.doc_ids, self.position = integers(num_tokens), integers(num_tokens)
        self.seq_lens = integers(MAX_REQUESTS)
        self.logical_page = integers(MAX_REQUESTS, NUM_BLOCKS)
        self.kv_num_blocks, self.kv_indices = integers(groups), integers(groups, NUM_BLOCKS + 1)
        self.query = numbers(num_tokens, HEADS, HEAD_SIZE)
        self.key = numbers(NUM_BLOCKS, PAGE, KV_HEADS, HEAD_SIZE)
        self.value = numbers(NUM_BLOCKS, PAGE, KV_HEADS, HEAD_SIZE)
        self.fill(requests_of(num_tokens))

    def fill(self, requests: list[Request], seed: int = 0) -> None:
        """Writes this batch, with random queries, keys and values, to the tensors. The rows after
        the requests' tokens are padding, and see no key."""
        self.requests = requests
        rows = [(r, t) for r, q in enumerate(requests) for t in range(q.length - q.new, q.length)]
        rows += [(MAX_REQUESTS - 1, 0)] * (self.num_tokens - len(rows))
        logical_page = torch.full((MAX_REQUESTS, NUM_BLOCKS), -1)
        for request, (pages, _, _) in enumerate(requests):
            logical_page[request, pages] = torch.arange(len(pages))
        lengths = [request.length for request in requests]
        self.doc_ids.copy_(torch.tensor([request for request, _ in rows]))
        self.position.copy_(torch.tensor([position for _, position in rows]))
        self.seq_lens.copy_(torch.tensor(lengths + [0] * (MAX_REQUESTS - len(lengths))))
        self.logical_page.copy_(logical_page)
        indices = torch.full(self.kv_indices.shape, -1)
        counts = torch.zeros(self.kv_num_blocks.shape, dtype=torch.int64)
        for group, first in enumerate(range(0, self.num_tokens, Q_BLOCK)):
            seen = {request for request, _ in rows[first : first + Q_BLOCK]} & set(
                range(len(requests))
            )
            blocks = sorted(page for request in seen for page in requests[request].pages)
            indices[group, : len(blocks)] = torch.tensor(blocks)
            counts[group] = len(blocks)
        self.kv_indices.copy_(indices)
        self.kv_num_blocks.copy_(counts)
        generator = torch.Generator().manual_seed(seed)
        for tensor in (self.query, self.key, self.value):
            tensor.copy_(torch.randn(tensor.shape, generator=generator))

    def mask_mod(self, window: int | None = None):
        doc_ids, position, seq_lens = self.doc_ids, self.position, self.seq_lens
        logical_page = self.logical_page

        def mask_mod(b, h, q, slot):
            page = logical_page[doc_ids[q], slot // PAGE]
            kv = page * PAGE + slot % PAGE
            sees = (page >= 0) & (kv < seq_lens[doc_ids[q]]) & (kv <= position[q])
            return sees if window is None else sees & (position[q] - kv < window)

        return mask_mod

    def block_mask(self, mask_mod=None) -> BlockMask:
        return BlockMask.from_kv_blocks(
            self.kv_num_blocks[None, None],
            self.kv_indices[None, None],
            BLOCK_SIZE=(Q_BLOCK, PAGE),
            mask_mod=mask_mod or self.mask_mod(),
            seq_lengths=(self.num_tokens, NUM_BLOCKS * PAGE),
            compute_q_blocks=False,
        )

    def arguments(self) -> dict[str, torch.Tensor]:
        key, value = (t.flatten(0, 1).transpose(0, 1)[None] for t in (self.key, self.value))
        return {"query": self.query.transpose(0, 1)[None], "key": key, "value": value}

    def attend(self, mask_mod=None, **options) -> torch.Tensor:
        """Returns the attention of the whole batch, [1, heads, tokens, head size]."""
        return flex_attention(**self.arguments(), block_mask=self.block_mask(mask_mod), **options)

    def alone_mask(self) -> BlockMask:
        """Returns a mask for `attend_alone`, where every token is a batch entry of its own and
        reads the blocks of its group. Needs a step whose tokens are one group."""
        packed, rows = self.mask_mod(), (self.num_tokens, 1)
        return BlockMask.from_kv_blocks(
            self.kv_num_blocks[:, None, None].expand(*rows, 1).contiguous(),
            self.kv_indices[:, None, None].expand(*rows, 1, -1).contiguous(),
            BLOCK_SIZE=(Q_BLOCK, PAGE),
            mask_mod=lambda b, h, q, slot: packed(0, h, b, slot),
            seq_lengths=(1, NUM_BLOCKS * PAGE),
            compute_q_blocks=False,
        )

    def attend_alone(self, block_mask: BlockMask | None = None) -> torch.Tensor:
        """Returns the attention of the batch, [1, heads, tokens, head size], computed with every
        token as a batch entry of its own."""
        arguments = self.arguments() | {"query": self.query[:, :, None]}
        alone = flex_attention(**arguments, block_mask=block_mask or self.alone_mask())
        return alone[:, :, 0].transpose(0, 1)[None]

    def expected(self, window: int | None = None, scale: float = HEAD_SIZE**-0.5) -> torch.Tensor:
        """Returns the expected result, [1, heads, tokens, head size] float32 on the CPU, computed
        request by request, without pages."""
        query, key, value = (t.float().cpu() for t in (self.query, self.key, self.value))
        out, row = torch.zeros(query.shape), 0
        for pages, length, new in self.requests:
            keys, values = (
                cache[pages].flatten(0, 1)[:length].repeat_interleave(HEADS // KV_HEADS, 1)
                for cache in (key, value)
            )
            for position in range(length - new, length):
                first = 0 if window is None else max(0, position + 1 - window)
                sees = slice(first, position + 1)
                scores = torch.einsum("hd,khd->hk", query[row], keys[sees]) * scale
                out[row] = torch.einsum("hk,khd->hd", scores.softmax(-1), values[sees])
                row += 1
        return out.transpose(0, 1)[None]


def expect_close(actual: torch.Tensor, expected: torch.Tensor, tolerance: float = 1e-4) -> None:
    torch.testing.assert_close(actual.float().cpu(), expected, atol=tolerance, rtol=tolerance)
