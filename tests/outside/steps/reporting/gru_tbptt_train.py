"""Trains a hand-written GRU on a sequence prediction task with truncated backpropagation through time."""

import math
from typing import Callable

import torch
import torch.nn as nn
import torch.nn.functional as F

INPUT, HIDDEN, BATCH, SEQ, CHUNK = 20, 128, 32, 96, 24


class GRUCell(nn.Module):
    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        bound = 1.0 / math.sqrt(hidden_size)
        self.w_x = nn.Parameter(torch.empty(3 * hidden_size, input_size).uniform_(-bound, bound))
        self.w_h = nn.Parameter(torch.empty(3 * hidden_size, hidden_size).uniform_(-bound, bound))
        self.b_x = nn.Parameter(torch.zeros(3 * hidden_size))
        self.b_h = nn.Parameter(torch.zeros(3 * hidden_size))

    def forward(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        x_r, x_z, x_n = F.linear(x, self.w_x, self.b_x).chunk(3, dim=-1)
        h_r, h_z, h_n = F.linear(h, self.w_h, self.b_h).chunk(3, dim=-1)
        r = torch.sigmoid(x_r + h_r)
        z = torch.sigmoid(x_z + h_z)
        n = torch.tanh(x_n + r * h_n)
        return (1.0 - z) * n + z * h


class Forecaster(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = GRUCell(INPUT, HIDDEN)
        self.readout = nn.Linear(HIDDEN, INPUT)

    def forward(self, xs: torch.Tensor, h: torch.Tensor):
        states = []
        for x in xs.unbind(dim=1):
            h = self.cell(x, h)
            states.append(h)
        return self.readout(torch.stack(states, dim=1)), h


def make(device: torch.device) -> Callable[[], None]:
    torch.manual_seed(2024)
    model = Forecaster().to(device)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, alpha=0.95)
    t = torch.arange(SEQ + 1, dtype=torch.float32).view(1, -1, 1)
    freq = 0.02 + 0.2 * torch.rand(BATCH, 1, INPUT)
    phase = 2 * math.pi * torch.rand(BATCH, 1, INPUT)
    series = torch.sin(freq * t + phase).to(device)
    total = torch.zeros((), device=device)

    def step() -> None:
        model.train()
        noisy = series + 0.05 * torch.randn_like(series)
        h = torch.zeros(BATCH, HIDDEN, device=device)
        for begin in range(0, SEQ, CHUNK):
            inputs = noisy[:, begin : begin + CHUNK]
            targets = series[:, begin + 1 : begin + CHUNK + 1]
            h = h.detach()
            optimizer.zero_grad(set_to_none=True)
            predictions, h = model(inputs, h)
            loss = F.smooth_l1_loss(predictions, targets)
            loss.backward()
            nn.utils.clip_grad_value_(model.parameters(), 1.0)
            optimizer.step()
            total.add_(loss.detach())

    return step
