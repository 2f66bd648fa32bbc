"""Programs whose traces are compared with recordings. Each is made once and then stepped.

Three decode with the steps of flex_graph. The others are written as people write them: a training
loop, a loop that a data loader feeds, and one that copies on a second stream.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import cycle

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from debubble.accelerator import Accelerator
from solutions.flex_graph.measure.decode_step import FlexWorkload, Variants

Step = Callable[[], object]
WIDTH = 512


def decoding(variant: str, accelerator: Accelerator) -> Step:
    """Returns decode steps of one batch after the other, run as one of flex_graph's variants."""
    workload = FlexWorkload.narrow() if accelerator.modelled else FlexWorkload.small()
    variants = Variants(workload, accelerator)
    variants.step.use(variant)
    batches = cycle(variants.batches)
    return lambda: variants.step.run(next(batches))


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


def blocks(accelerator: Accelerator, count: int = 8, width: int = WIDTH) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(Block(width) for _ in range(count))).to(accelerator.device)


def training(accelerator: Accelerator) -> Step:
    model = blocks(accelerator)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    history: list[float] = []

    def step() -> None:
        x = torch.randn(64, WIDTH).to(accelerator.device)
        loss = F.mse_loss(model(x), torch.zeros_like(x))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        history.append(loss.item())

    return step


class SlowSamples(Dataset):
    """Samples that take a worker 2 ms each to make."""

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, at: int) -> torch.Tensor:
        time.sleep(0.002)
        return torch.full((WIDTH,), at / 100_000)


def loading(accelerator: Accelerator) -> Step:
    """Returns steps that wait for a data loader: 8 samples of 2 ms, by 2 workers."""
    model = blocks(accelerator, 4)
    loader = DataLoader(
        SlowSamples(), batch_size=8, num_workers=2, pin_memory=accelerator.name == "cuda"
    )
    batches: Iterator[torch.Tensor] = iter(loader)
    total = torch.zeros((), device=accelerator.device)

    def step() -> None:
        x = next(batches).to(accelerator.device, non_blocking=True)
        with torch.no_grad():
            total.add_(model(x).sum())

    return step


def two_streams(accelerator: Accelerator) -> Step:
    """Returns steps that upload the next input on a second stream while the model runs, and then
    wait for it there, since it is large."""
    model = blocks(accelerator, 4)
    side = accelerator.stream()
    rows = 64 if accelerator.modelled else 8192
    host = torch.randn(rows, WIDTH, pin_memory=accelerator.pin_memory)
    target = torch.zeros(rows, WIDTH, device=accelerator.device)
    free, arrived = accelerator.event(), accelerator.event()

    def step() -> None:
        with torch.no_grad():
            free.record()
            with side:
                free.wait(side)
                target.copy_(host, non_blocking=True)
                arrived.record(side)
            model(torch.ones(16, WIDTH, device=accelerator.device))
            arrived.wait()
            model(target)

    return step


def allocating(accelerator: Accelerator) -> Step:
    """Returns steps that empty PyTorch's cache of memory, so that the next step allocates it
    again."""
    model = blocks(accelerator, 4)

    def step() -> None:
        with torch.no_grad():
            model(torch.ones(4096, WIDTH, device=accelerator.device))
        if accelerator.name == "cuda":
            torch.cuda.empty_cache()

    return step


PROGRAMS: dict[str, tuple[Callable[[Accelerator], Step], int]] = {
    "decode_eager": (lambda accelerator: decoding("eager", accelerator), 3),
    "decode_graphs": (lambda accelerator: decoding("full", accelerator), 8),
    "decode_piecewise": (lambda accelerator: decoding("piecewise", accelerator), 3),
    "training": (training, 4),
    "loader": (loading, 6),
    "two_streams": (two_streams, 8),
    "allocating": (allocating, 4),
}
"""The function that makes each program's step, and the number of steps in a trace."""
