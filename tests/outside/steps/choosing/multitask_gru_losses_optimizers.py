"""Train a shared GRU encoder with five task losses and a separate optimizer for each part of the model."""

from typing import Callable, Dict

import torch
import torch.nn as nn
import torch.nn.functional as F


class Encoder(nn.Module):
    def __init__(self, features: int, hidden: int):
        super().__init__()
        self.norm = nn.LayerNorm(features)
        self.gru = nn.GRU(features, hidden, num_layers=2, batch_first=True, dropout=0.1)

    def forward(self, x):
        out, last = self.gru(self.norm(x))
        return out, last[-1]


def head(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 64), nn.ELU(), nn.Linear(64, outputs))


def make(device: torch.device) -> Callable[[], None]:
    torch.manual_seed(11)
    batch, length, features, hidden = 24, 20, 40, 96
    encoder = Encoder(features, hidden).to(device)
    heads = nn.ModuleDict(
        {
            "kind": head(hidden, 12),
            "value": head(hidden, 3),
            "share": head(hidden, 8),
            "next": head(hidden, features),
            "flags": head(hidden, 16),
        }
    ).to(device)
    optimizers = [
        torch.optim.AdamW(encoder.parameters(), lr=1e-3, weight_decay=0.01),
        torch.optim.SGD(heads["kind"].parameters(), lr=0.05, momentum=0.9),
        torch.optim.RMSprop(heads["value"].parameters(), lr=1e-3, momentum=0.5),
        torch.optim.Adam(
            list(heads["share"].parameters()) + list(heads["next"].parameters()),
            lr=1e-3,
            amsgrad=True,
        ),
        torch.optim.Adagrad(heads["flags"].parameters(), lr=0.01),
    ]
    x = torch.randn(6, batch, length, features, device=device)
    kind = torch.randint(0, 12, (6, batch), device=device)
    value = torch.randn(6, batch, 3, device=device)
    share = torch.softmax(torch.randn(6, batch, 8, device=device), dim=-1)
    flags = (torch.rand(6, batch, 16, device=device) < 0.2).float()
    class_weight = torch.linspace(0.5, 1.5, 12, device=device)
    totals: Dict[str, float] = {}
    turn = 0

    def step() -> None:
        nonlocal turn
        i = turn % 6
        turn += 1
        for opt in optimizers:
            opt.zero_grad()
        out, last = encoder(x[i])
        losses = {
            "kind": F.cross_entropy(heads["kind"](last), kind[i], weight=class_weight),
            "value": F.mse_loss(heads["value"](last), value[i]),
            "share": F.kl_div(
                F.log_softmax(heads["share"](last), dim=-1), share[i], reduction="batchmean"
            ),
            "next": F.smooth_l1_loss(heads["next"](out[:, :-1]), x[i, :, 1:], beta=0.5),
            "flags": F.binary_cross_entropy(torch.sigmoid(heads["flags"](last)), flags[i]),
        }
        total = sum(losses.values()) + 1e-4 * out.pow(2).mean()
        total.backward()
        for opt in optimizers:
            opt.step()
        for name, loss in losses.items():
            totals[name] = 0.9 * totals.get(name, 0.0) + 0.1 * loss.item()

    return step
