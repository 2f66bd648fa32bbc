"""Train a text classifier on nn.TransformerEncoderLayer with a padding mask and batches taken from pageable host memory."""

import math
from typing import Callable

import torch
from torch import nn


def sinusoid(length: int, dim: int) -> torch.Tensor:
    pos = torch.arange(length).unsqueeze(1)
    freq = torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
    table = torch.zeros(length, dim)
    table[:, 0::2] = torch.sin(pos * freq)
    table[:, 1::2] = torch.cos(pos * freq)
    return table


class Classifier(nn.Module):
    def __init__(self, vocab: int, dim: int, classes: int, max_len: int):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=0)
        self.register_buffer("pe", sinusoid(max_len, dim))
        layer = nn.TransformerEncoderLayer(
            dim, nhead=4, dim_feedforward=2 * dim, dropout=0.1, batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, num_layers=3, enable_nested_tensor=False)
        self.out = nn.Linear(dim, classes)
        self.scale = math.sqrt(dim)

    def forward(self, tokens):
        pad = tokens == 0
        h = self.embed(tokens) * self.scale + self.pe[: tokens.size(1)]
        h = self.encoder(h, src_key_padding_mask=pad)
        keep = (~pad).unsqueeze(-1).to(h.dtype)
        pooled = (h * keep).sum(dim=1) / keep.sum(dim=1).clamp(min=1.0)
        return self.out(pooled)


def make(device: torch.device) -> Callable[[], None]:
    torch.manual_seed(1)
    vocab, length, n, batch = 5000, 48, 512, 16
    tokens = torch.randint(1, vocab, (n, length))
    lengths = torch.randint(10, length + 1, (n, 1))
    tokens[torch.arange(length).unsqueeze(0) >= lengths] = 0
    labels = torch.randint(0, 10, (n,))
    model = Classifier(vocab, 128, 10, length).to(device)
    model.train()
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=100, gamma=0.9)
    state = {"i": 0}

    def step() -> None:
        lo = (state["i"] * batch) % n
        state["i"] += 1
        x = tokens[lo : lo + batch].to(device)
        y = labels[lo : lo + batch].to(device)
        optimizer.zero_grad()
        logits = model(x)
        loss = criterion(logits, y)
        loss.backward()
        optimizer.step()
        scheduler.step()
        acc = (logits.argmax(dim=-1) == y).float().mean()
        acc.item()

    return step
