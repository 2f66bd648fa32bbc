"""Train a click-through recommender with several embedding tables, a bag of history items and pairwise feature crossings."""

from typing import Callable

import torch
import torch.nn as nn
import torch.nn.functional as F


class ClickModel(nn.Module):
    def __init__(self, sizes, items: int, dense: int, dim: int):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(n, dim) for n in sizes])
        self.history = nn.EmbeddingBag(items, dim, mode="mean")
        self.bottom = nn.Sequential(
            nn.Linear(dense, 128), nn.ReLU(), nn.Linear(128, dim), nn.ReLU()
        )
        fields = len(sizes) + 2
        pairs = torch.tril_indices(fields, fields, offset=-1)
        self.register_buffer("rows", pairs[0])
        self.register_buffer("cols", pairs[1])
        self.top = nn.Sequential(
            nn.Linear(dim + pairs.size(1), 256),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(256, 64),
            nn.ReLU(),
            nn.Linear(64, 1),
        )

    def forward(self, dense, cats, hist, offsets):
        d = self.bottom(dense)
        vectors = [d, self.history(hist, offsets)]
        vectors += [table(cats[:, i]) for i, table in enumerate(self.tables)]
        stacked = torch.stack(vectors, dim=1)
        inter = torch.bmm(stacked, stacked.transpose(1, 2))
        crossed = inter[:, self.rows, self.cols]
        return self.top(torch.cat([d, crossed], dim=1)).squeeze(1)


def make(device: torch.device) -> Callable[[], None]:
    torch.manual_seed(7)
    pin = device.type != "cpu"
    sizes, items, batch, per_user = [1000, 5000, 200, 2000, 50, 300], 8000, 64, 20
    n = 1024
    dense_all = torch.rand(n, 13)
    cats_all = torch.stack([torch.randint(0, s, (n,)) for s in sizes], dim=1)
    hist_all = torch.randint(0, items, (n, per_user))
    clicks_all = torch.rand(n).lt(0.3).float()
    if pin:
        dense_all, cats_all = dense_all.pin_memory(), cats_all.pin_memory()
        hist_all, clicks_all = hist_all.pin_memory(), clicks_all.pin_memory()
    model = ClickModel(sizes, items, 13, 32).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    offsets = torch.arange(0, batch * per_user, per_user, device=device)
    it = 0

    def step() -> None:
        nonlocal it
        part = slice(it * batch % n, it * batch % n + batch)
        it += 1
        dense = dense_all[part].to(device, non_blocking=True)
        cats = cats_all[part].to(device, non_blocking=True)
        hist = hist_all[part].to(device, non_blocking=True).view(-1)
        clicks = clicks_all[part].to(device, non_blocking=True)
        logits = model(torch.log1p(dense), cats, hist, offsets)
        loss = F.binary_cross_entropy_with_logits(logits, clicks)
        opt.zero_grad()
        loss.backward()
        opt.step()
        loss.item()

    return step
