"""The alternative to this lesson's code: a plain PyTorch decoder with a static cache, compiled.

`python -m solutions.flex_graph.measure.compiled_peer SHAPE` answers each empty line on its input
with the microseconds per step of a row of decode steps, and the line "kernels" with how many
kernels a step has. It is a process of its own, so that the two sides don't share a compiler, caches
or memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

import torch
import torch.nn.functional as F

import debubble
from debubble.accelerator import current

READY, KERNELS = "ready", "kernels"
GRAPH_WARM_UPS = 3


class PeerShape(NamedTuple):
    """A decoder's sizes, and the requests that it decodes."""

    num_layers: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_size: int
    vocab_size: int
    cached: tuple[int, ...]
    """Number of tokens of each request before the first step."""
    max_model_len: int
    num_steps: int
    """Number of decode steps in a row."""


class CompiledPeer:
    """A compiled PyTorch decoder in its own process, to compare with; a context manager that ends
    the process.

    Raises RuntimeError with the last line of the process's errors if it can't start.
    """

    def __init__(self, shape: PeerShape) -> None:
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115  # until it ends
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, json.dumps(shape)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
        )

    def __enter__(self) -> CompiledPeer:
        if self._answer("") != READY:
            self._process.wait()
            self._complaints.seek(0)
            lines = self._complaints.read().strip().splitlines() or ["it said nothing"]
            self.__exit__()
            raise RuntimeError(f"the compiled peer can't be measured: {lines[-1]}")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._complaints.close()

    def step_us(self) -> float:
        """Returns the microseconds per step of a row of steps, which the process measures now."""
        return float(self._answer("\n"))

    def kernels(self) -> int:
        """Returns how many kernels a step has. Call it last: a profiler slows later steps."""
        return int(self._answer(f"{KERNELS}\n"))

    def _answer(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line)
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()


class StaticDecoder:
    """A decoder in plain PyTorch, with random weights and contiguous caches [requests, KV heads,
    max_model_len, head size]."""

    def __init__(self, shape: PeerShape, device: str) -> None:
        self.shape, requests = shape, len(shape.cached)
        heads, kv_heads, size = shape.num_heads, shape.num_kv_heads, shape.head_size
        hidden, gates = shape.hidden_size, shape.intermediate_size

        def weight(rows: int, columns: int) -> torch.Tensor:
            numbers = torch.randn(rows, columns, dtype=torch.bfloat16, device=device)
            return numbers.mul_(columns**-0.5)

        def cache() -> torch.Tensor:
            size_of_all = (requests, kv_heads, shape.max_model_len, size)
            return torch.zeros(size_of_all, dtype=torch.bfloat16, device=device)

        self.embedding = weight(shape.vocab_size, hidden)
        self.head = weight(shape.vocab_size, hidden)
        self.norm = torch.ones(hidden, dtype=torch.bfloat16, device=device)
        self.layers = [
            (
                weight((heads + 2 * kv_heads) * size, hidden),
                weight(hidden, heads * size),
                weight(2 * gates, hidden),
                weight(hidden, gates),
                cache(),
                cache(),
            )
            for _ in range(shape.num_layers)
        ]
        frequencies = 5e5 ** (-torch.arange(0, size, 2, device=device) / size)
        angles = torch.arange(shape.max_model_len, device=device)[:, None] * frequencies
        self.cos, self.sin = angles.cos(), angles.sin()
        self.requests = torch.arange(requests, device=device)
        self.places = torch.arange(shape.max_model_len, device=device)

    def step(self, ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Returns the logits [requests, vocabulary] after one token of each request; `ids` and
        `positions` are int64 [requests]. The heads that share a key are the rows of one query,
        which is the fastest way to call the attention."""
        heads, kv_heads, size = self.shape.num_heads, self.shape.num_kv_heads, self.shape.head_size
        turns = self.cos[positions][:, None], self.sin[positions][:, None]
        seen = (self.places <= positions[:, None])[:, None, None]
        hidden = self.embedding[ids]
        for qkv, out, gate_up, down, keys, values in self.layers:
            projected = F.linear(self._normed(hidden), qkv).unflatten(1, (-1, size))
            query, key, value = projected.split((heads, kv_heads, kv_heads), 1)
            keys[self.requests, :, positions] = _turned(key, *turns)
            values[self.requests, :, positions] = value
            query = _turned(query, *turns).unflatten(1, (kv_heads, -1))
            attended = F.scaled_dot_product_attention(query, keys, values, attn_mask=seen)
            hidden = hidden + F.linear(attended.flatten(1), out)
            gate, up = F.linear(self._normed(hidden), gate_up).chunk(2, -1)
            hidden = hidden + F.linear(F.silu(gate) * up, down)
        return F.linear(self._normed(hidden), self.head)

    def _normed(self, hidden: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(hidden, self.norm.shape, self.norm, 1e-5)


def _turned(heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = heads.float().chunk(2, -1)
    turned = first * cos - second * sin, second * cos + first * sin
    return torch.cat(turned, -1).to(heads.dtype)


class CapturedPeer:
    """The compiled decoder's step in one CUDA graph that we capture around it: `reduce-overhead`
    would not capture a step that writes to its caches."""

    def __init__(self, shape: PeerShape) -> None:
        decoder = StaticDecoder(shape, "cuda")
        self.num_steps, start = shape.num_steps, torch.tensor(shape.cached, device="cuda")
        self.positions = [start + step for step in range(shape.num_steps)]
        self.ids, self.now = torch.zeros_like(start), start.clone()
        step = torch.compile(decoder.step, fullgraph=True)
        for _ in range(GRAPH_WARM_UPS):
            step(self.ids, self.now)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.logits = step(self.ids, self.now)

    def step_us(self) -> float:
        torch.cuda.synchronize()
        started = time.perf_counter()
        for positions in self.positions:
            self.now.copy_(positions)
            self.graph.replay()
        torch.cuda.synchronize()
        return (time.perf_counter() - started) * 1e6 / self.num_steps

    def kernels(self) -> int:
        with debubble.record(current()) as timeline:
            self.graph.replay()
            torch.cuda.synchronize()
        return timeline.counts()["kernels"]


def main() -> None:
    peer = CapturedPeer(PeerShape(*json.loads(sys.argv[1])))
    peer.step_us()
    print(READY, flush=True)
    for line in sys.stdin:
        print(peer.kernels() if line.strip() == KERNELS else peer.step_us(), flush=True)


if __name__ == "__main__":
    with torch.inference_mode():
        main()
