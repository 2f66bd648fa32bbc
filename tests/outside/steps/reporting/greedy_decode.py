"""Greedy decoding of 16 tokens from a bfloat16 transformer with a hand-written key/value cache and a stop check after each token."""

import math
from typing import Callable

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB, DIM, HEADS, LAYERS, BATCH, PROMPT, NEW, EOS = 2048, 256, 8, 4, 4, 24, 16, 2


class RMSNorm(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x.float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
        return h.to(x.dtype) * self.weight


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(DIM), RMSNorm(DIM)
        self.qkv = nn.Linear(DIM, 3 * DIM, bias=False)
        self.out = nn.Linear(DIM, DIM, bias=False)
        self.gate, self.up = (nn.Linear(DIM, 2 * DIM, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * DIM, DIM, bias=False)

    def forward(self, x, k_cache, v_cache, start: int, bias):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        end = start + t
        k_cache[:, :, start:end] = k
        v_cache[:, :, start:end] = v
        scores = q @ k_cache[:, :, :end].transpose(-2, -1) / math.sqrt(q.size(-1))
        if bias is not None:
            scores = scores + bias
        probs = F.softmax(scores.float(), dim=-1).to(x.dtype)
        y = (probs @ v_cache[:, :, :end]).transpose(1, 2).reshape(b, t, DIM)
        x = x + self.out(y)
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tok = nn.Embedding(VOCAB, DIM)
        self.pos = nn.Embedding(PROMPT + NEW, DIM)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = RMSNorm(DIM)
        self.head = nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, ids, cache, start: int):
        t, bias = ids.size(1), None
        x = self.tok(ids) + self.pos(torch.arange(start, start + t, device=ids.device))
        if t > 1:
            bias = torch.full((t, t), float("-inf"), device=x.device, dtype=x.dtype).triu(1)
        for layer, (k, v) in zip(self.layers, cache):
            x = layer(x, k, v, start, bias)
        return self.head(self.norm(x[:, -1]))


def make(device: torch.device) -> Callable[[], None]:
    torch.manual_seed(5)
    model = Decoder().to(device=device, dtype=torch.bfloat16).eval()
    prompt = torch.randint(3, VOCAB, (BATCH, PROMPT)).to(device)
    shape = (BATCH, HEADS, PROMPT + NEW, DIM // HEADS)
    cache = [
        tuple(torch.zeros(shape, device=device, dtype=torch.bfloat16) for _ in range(2))
        for _ in range(LAYERS)
    ]

    @torch.no_grad()
    def step() -> None:
        finished = torch.zeros(BATCH, dtype=torch.bool, device=device)
        out, ids, start = [], prompt, 0
        for _ in range(NEW):
            logits = model(ids, cache, start)
            start += ids.size(1)
            logits[:, EOS] = float("-inf")  # minimum length equals NEW
            token = logits.argmax(dim=-1)
            finished |= token == EOS
            out.append(token)
            if finished.all().item():
                break
            ids = token.unsqueeze(1)
        prompt[:, -NEW:] = torch.stack(out, dim=1)

    return step
