"""Measures how long sim takes for an operator, and for a small Llama's forward, beside the CPU.

    python scripts/sim_speed.py [--json]

Microseconds of CPU time, on one thread. CPU and sim take turns in one run, and the fastest turn of
each counts. The Llama (two layers of width 64, batches of 2 x 8 tokens) needs no other library.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from contextlib import nullcontext

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.nn.functional as F
from torch import nn

import debubble

TURNS, CALLS = 40, 50


class Layer(nn.Module):
    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.RMSNorm(width), nn.RMSNorm(width)])
        self.qkv = nn.ModuleList([nn.Linear(width, width, bias=False) for _ in range(3)])
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = (nn.Linear(width, 2 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        h = self.norms[0](x)
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (project(h).view(shape).transpose(1, 2) for project in self.qkv)
        q, k = (a * cos + torch.cat((-a[..., 8:], a[..., :8]), -1) * sin for a in (q, k))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        h = self.norms[1](x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(128, 64)
        self.layers = nn.ModuleList([Layer(), Layer()])
        self.norm, self.head = nn.RMSNorm(64), nn.Linear(64, 128, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        angles = torch.outer(
            torch.arange(ids.shape[1], device=ids.device),
            10000 ** (-torch.arange(0, 16, 2, device=ids.device) / 16),
        )
        cos, sin = torch.cat((angles, angles), -1).cos(), torch.cat((angles, angles), -1).sin()
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.head(self.norm(x)).argmax(-1)


def operators(device: torch.device) -> dict[str, Callable[[], object]]:
    x, y = torch.rand(8, 16).to(device), torch.rand(8, 16).to(device)
    w = torch.rand(16, 16).to(device)
    return {
        "add": lambda: x + y,
        "mul_": lambda: x.mul_(1.0),
        "mm": lambda: x @ w,
        "view": lambda: x.view(16, 8),
        "softmax": lambda: x.softmax(-1),
        "sum": lambda: x.sum(),
        "cat": lambda: torch.cat((x, y)),
        "empty_like": lambda: torch.empty_like(x),
    }


def fastest(call: Callable[[], object], calls: int) -> float:
    started = time.thread_time()
    for _ in range(calls):
        call()
    return (time.thread_time() - started) / calls * 1e6


def measure() -> dict[str, dict[str, float]]:
    accelerator = debubble.accelerator("sim")
    torch.manual_seed(0)
    model = Llama().eval()
    ids = torch.randint(0, 128, (2, 8))
    twin = Llama().eval()
    twin.load_state_dict(model.state_dict())
    twin.to(accelerator.device)
    there = ids.to(accelerator.device)
    work = {name: (call, CALLS) for name, call in operators(torch.device("cpu")).items()}
    on_sim = {name: (call, CALLS) for name, call in operators(accelerator.device).items()}
    work["llama"] = (lambda: model(ids)), 2
    on_sim["llama"] = (lambda: twin(there)), 2
    table = {name: dict.fromkeys(("cpu", "sim", "recorded"), float("inf")) for name in work}
    with torch.no_grad():
        for _ in range(TURNS):
            for name, row in table.items():
                for column, (call, calls) in (
                    ("cpu", work[name]),
                    ("sim", on_sim[name]),
                    ("recorded", on_sim[name]),
                ):
                    recorded = column == "recorded"
                    with debubble.record(accelerator) if recorded else nullcontext():
                        row[column] = min(row[column], fastest(call, calls))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    table = measure()
    if parser.parse_args().json:
        print(json.dumps(table, indent=1))
        return
    print(f"{'':12}{'CPU':>10}{'sim':>10}{'recorded':>10}")
    for name, row in table.items():
        print(f"{name:12}" + "".join(f"{value:10.1f}" for value in row.values()))


if __name__ == "__main__":
    main()
