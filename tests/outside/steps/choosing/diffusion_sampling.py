"""Sample images with a guided deterministic diffusion loop over a small convolutional noise predictor with time embeddings."""

import math
from typing import Callable

import torch
import torch.nn as nn
import torch.nn.functional as F


def time_embedding(t, dim: int):
    half = dim // 2
    freqs = torch.exp(-math.log(10000.0) * torch.arange(half, device=t.device) / half)
    args = t.float().unsqueeze(1) * freqs.unsqueeze(0)
    return torch.cat([args.sin(), args.cos()], dim=1)


class ResBlock(nn.Module):
    def __init__(self, cin: int, cout: int, emb: int):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(8, cin), nn.Conv2d(cin, cout, 3, padding=1)
        self.emb = nn.Linear(emb, 2 * cout)
        self.norm2, self.conv2 = nn.GroupNorm(8, cout), nn.Conv2d(cout, cout, 3, padding=1)
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x, emb):
        h = self.conv1(F.silu(self.norm1(x)))
        scale, shift = self.emb(F.silu(emb))[:, :, None, None].chunk(2, dim=1)
        h = self.norm2(h) * (1 + scale) + shift
        return self.skip(x) + self.conv2(F.silu(h))


class Denoiser(nn.Module):
    def __init__(self, ch: int = 32, emb: int = 128, classes: int = 10):
        super().__init__()
        self.ch = ch
        self.time = nn.Sequential(nn.Linear(ch, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.label = nn.Embedding(classes + 1, emb)
        self.inp = nn.Conv2d(3, ch, 3, padding=1)
        self.down1, self.pool = ResBlock(ch, ch, emb), nn.Conv2d(ch, ch, 3, stride=2, padding=1)
        self.down2, self.mid = ResBlock(ch, 2 * ch, emb), ResBlock(2 * ch, 2 * ch, emb)
        self.up = ResBlock(3 * ch, ch, emb)
        self.norm, self.out = nn.GroupNorm(8, ch), nn.Conv2d(ch, 3, 3, padding=1)

    def forward(self, x, t, y):
        emb = self.time(time_embedding(t, self.ch)) + self.label(y)
        a = self.down1(self.inp(x), emb)
        b = self.mid(self.down2(self.pool(a), emb), emb)
        b = F.interpolate(b, scale_factor=2, mode="nearest")
        return self.out(F.silu(self.norm(self.up(torch.cat([b, a], dim=1), emb))))


def make(device: torch.device) -> Callable[[], None]:
    torch.manual_seed(12)
    model = Denoiser().to(device).eval()
    alphas = torch.cumprod(1.0 - torch.linspace(1e-4, 0.02, 1000, device=device), dim=0)
    times = list(range(999, -1, -125))
    labels = torch.arange(4, device=device) % 10
    both = torch.cat([labels, torch.full_like(labels, 10)])

    @torch.no_grad()
    def step() -> None:
        x = torch.randn(4, 3, 24, 24, device=device)
        for i, t in enumerate(times):
            steps = torch.full((8,), t, device=device, dtype=torch.long)
            cond, free = model(torch.cat([x, x]), steps, both).chunk(2)
            eps = free + 3.0 * (cond - free)
            a = alphas[t]
            prev = alphas[times[i + 1]] if i + 1 < len(times) else torch.ones_like(a)
            x0 = ((x - (1 - a).sqrt() * eps) / a.sqrt()).clamp(-1, 1)
            x = prev.sqrt() * x0 + (1 - prev).sqrt() * eps
        ((x + 1) * 127.5).round().to(torch.uint8).cpu()

    return step
