"""One training step of a click-through recommender with embedding bags, pairwise feature crosses and MLPs using Adagrad."""

from typing import Callable

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, DENSE, EMB = 128, 13, 32
TABLES = (2000, 1000, 5000, 300, 800, 1500)
BAG = 6


def mlp(sizes, final_relu: bool) -> nn.Sequential:
    layers = []
    for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:])):
        layers.append(nn.Linear(a, b))
        if final_relu or i < len(sizes) - 2:
            layers.append(nn.ReLU())
    return nn.Sequential(*layers)


class Recommender(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(n, EMB, mode="sum") for n in TABLES)
        self.bottom = mlp((DENSE, 128, 64, EMB), final_relu=True)
        features = len(TABLES) + 1
        crosses = features * (features - 1) // 2
        self.top = mlp((EMB + crosses, 192, 96, 1), final_relu=False)
        rows, cols = torch.tril_indices(features, features, offset=-1)
        self.register_buffer("rows", rows)
        self.register_buffer("cols", cols)

    def forward(
        self, dense: torch.Tensor, ids: torch.Tensor, offsets: torch.Tensor
    ) -> torch.Tensor:
        x = self.bottom(dense)
        pooled = [bag(ids[i], offsets) for i, bag in enumerate(self.bags)]
        stacked = torch.stack([x] + pooled, dim=1)
        products = torch.bmm(stacked, stacked.transpose(1, 2))
        crosses = products[:, self.rows, self.cols]
        return self.top(torch.cat([x, crosses], dim=1)).squeeze(1)


def make(device: torch.device) -> Callable[[], None]:
    torch.manual_seed(99)
    model = Recommender().to(device)
    for bag in model.bags:
        nn.init.uniform_(bag.weight, -0.05, 0.05)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01, eps=1e-8)
    gen = torch.Generator().manual_seed(3)
    offsets = torch.arange(0, BATCH * BAG, BAG, device=device)
    running = 0.0

    def next_batch():
        dense = torch.rand(BATCH, DENSE, generator=gen) * 100.0
        ids = torch.stack([torch.randint(0, n, (BATCH * BAG,), generator=gen) for n in TABLES])
        clicks = (torch.rand(BATCH, generator=gen) < 0.25).float()
        return dense.to(device), ids.to(device), clicks.to(device)

    def step() -> None:
        nonlocal running
        model.train()
        dense, ids, clicks = next_batch()
        dense = torch.log1p(dense)
        optimizer.zero_grad(set_to_none=True)
        logits = model(dense, ids, offsets)
        loss = F.binary_cross_entropy_with_logits(logits, clicks)
        loss.backward()
        optimizer.step()
        running = 0.98 * running + 0.02 * loss.item()

    return step
