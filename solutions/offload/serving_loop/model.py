"""A decoder that computes one token for every slot in a step, as one CUDA graph.

Its layers are those of Llama, without rotary positions and without the other GPUs of a group: they
do real work on the KV blocks that were loaded, but don't generate text.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from debubble.accelerator import current
from solutions.common.decoder.weights import projection
from solutions.common.staging_ring import StagingRing

from .config import ServingConfig

ROWS_IN_FLIGHT = 16
"""Number of slots that may be filled before the host waits for the first slot's upload."""
POSITION, TOKEN, GENERATED = range(3)
"""Offsets of three numbers after the block table in a slot's row: the position, the id of the
latest token, and how many tokens were generated."""


class SlotDecoder:
    """A decoder with weights from config.seed, a KV cache for each layer, and `max_running` slots.

    `start` fills a slot, `step` advances all of them, `stop` ends one. A slot without a request
    computes on block 0, which belongs to no request.
    """

    def __init__(self, config: ServingConfig, device: torch.device) -> None:
        torch.manual_seed(config.seed)
        self.config, self.device = config, device
        shape = (config.num_gpu_blocks, *config.block_shape)
        self.caches = [
            torch.zeros(shape, dtype=config.dtype, device=device) for _ in range(config.num_layers)
        ]
        """KV caches, [num_gpu_blocks, 2, block_size, num_kv_heads, head_size] for each layer."""
        self.layers = [_weights(config, device) for _ in self.caches]
        vocabulary = (config.vocab_size, config.hidden_size)
        self.embedding = torch.randn(vocabulary, dtype=config.dtype, device=device)
        self.lm_head = projection(*vocabulary, config, device)
        table_width = config.blocks_per_request
        self.slots = torch.zeros(
            (config.max_running, table_width + 3), dtype=torch.int64, device=device
        )
        self.table = self.slots[:, :table_width]
        self.position, self.token, self.generated = self.slots[:, table_width:].unbind(1)
        self.output = torch.zeros(
            (config.max_running, config.new_tokens), dtype=torch.int64, device=device
        )
        """[max_running, new_tokens]: the tokens that each slot has generated."""
        self.slot_index = torch.arange(config.max_running, device=device)
        self.cached = torch.arange(table_width * config.block_size, device=device)
        row = (1, table_width + 3)
        self._staging = StagingRing(row, torch.int64, ROWS_IN_FLIGHT)
        self._graph = current().graph()

    def start(self, slot: int, blocks: list[int], position: int, token: int) -> None:
        """Puts a request into a slot: its block table, and the position and the id of the token
        that it continues from. Takes one pinned upload on the current stream."""
        row = torch.tensor([[*blocks, position, token, 0]], dtype=torch.int64)
        self._staging.upload(row, self.slots[slot : slot + 1])

    def stop(self, slot: int) -> None:
        """Ends a slot's request: from now on the slot computes on block 0, since its blocks may
        soon belong to another request."""
        self.slots[slot].zero_()

    def capture(self) -> None:
        """Captures a step of all slots as a CUDA graph, after running one that compiles and
        allocates. The slots must be empty."""
        self._forward()
        with self._graph.capture():
            self._forward()
        self.slots.zero_()

    def step(self) -> None:
        """Computes one token for every slot, by one graph launch."""
        self._graph.replay()

    def _forward(self) -> None:
        hidden = F.embedding(self.token, self.embedding)
        block = self.position // self.config.block_size
        place = (self.table.gather(1, block[:, None])[:, 0], self.position % self.config.block_size)
        seen = self.cached <= self.position[:, None]
        for weights, cache in zip(self.layers, self.caches, strict=True):
            hidden = hidden + self._attend(_normed(hidden), weights, cache, place, seen)
            gate, up = F.linear(_normed(hidden), weights["gate_up"]).chunk(2, dim=-1)
            hidden = hidden + F.linear(F.silu(gate) * up, weights["down"])
        token = F.linear(_normed(hidden), self.lm_head).argmax(dim=-1)
        self.output.index_put_((self.slot_index, self.generated), token)
        self.token.copy_(token)
        # A slot without a request goes on, and must stay within its row.
        self.generated.add_(1).clamp_(max=self.config.new_tokens - 1)
        last = self.config.prefix_tokens + self.config.new_tokens - 1
        self.position.add_(1).clamp_(max=last)

    def _attend(
        self,
        hidden: torch.Tensor,
        weights: dict[str, torch.Tensor],
        cache: torch.Tensor,
        place: tuple[torch.Tensor, torch.Tensor],
        seen: torch.Tensor,
    ) -> torch.Tensor:
        """Writes each slot's new key and value to `cache`, and returns the attention's output for
        its token over its blocks, [slots, hidden_size]."""
        config = self.config
        rows = len(hidden)
        sizes = [config.num_heads, config.num_kv_heads, config.num_kv_heads]
        qkv = F.linear(hidden, weights["qkv"]).view(rows, sum(sizes), config.head_size)
        query, key, value = qkv.split(sizes, dim=1)
        cache[:, 0].index_put_(place, key)
        cache[:, 1].index_put_(place, value)
        keys, values = (
            cache[:, plane].index_select(0, self.table.flatten()).view(rows, -1, *key.shape[1:])
            for plane in (0, 1)
        )
        # [slots, num_kv_heads, tokens, head_size]
        keys, values = keys.transpose(1, 2), values.transpose(1, 2)
        grouped = query.unflatten(1, (config.num_kv_heads, -1))
        scores = (grouped @ keys.transpose(-1, -2)).float() * config.head_size**-0.5
        scores = scores.masked_fill(~seen[:, None, None], float("-inf"))
        attended = scores.softmax(dim=-1).to(values.dtype) @ values
        return F.linear(attended.flatten(1), weights["out"])


def _normed(hidden: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(hidden, hidden.shape[-1:])


def _weights(config: ServingConfig, device: torch.device) -> dict[str, torch.Tensor]:
    shapes = {
        "qkv": (config.qkv_size, config.hidden_size),
        "out": (config.hidden_size, config.query_size),
        "gate_up": (2 * config.intermediate_size, config.hidden_size),
        "down": (config.hidden_size, config.intermediate_size),
    }
    return {name: projection(*shape, config, device) for name, shape in shapes.items()}
