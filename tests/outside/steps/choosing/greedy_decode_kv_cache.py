"""Decode greedily from a bfloat16 decoder with rotary positions, RMSNorm and a preallocated KV cache."""

from typing import Callable, List

import torch
import torch.nn as nn
import torch.nn.functional as F

DIM, HEADS, LAYERS, VOCAB, BATCH, PROMPT, NEW = 256, 8, 4, 2048, 4, 24, 12
HEAD_DIM = DIM // HEADS


class RMSNorm(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        h = x.float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
        return h.to(x.dtype) * self.weight


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = RMSNorm(DIM), RMSNorm(DIM)
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(DIM, DIM, bias=False) for _ in range(4))
        self.gate, self.up = (
            nn.Linear(DIM, 2 * DIM, bias=False),
            nn.Linear(DIM, 2 * DIM, bias=False),
        )
        self.down = nn.Linear(2 * DIM, DIM, bias=False)

    def forward(self, x, cache, start: int, cos, sin):
        b, t, _ = x.shape
        h = self.n1(x)
        q = self.wq(h).view(b, t, HEADS, HEAD_DIM).transpose(1, 2)
        k = self.wk(h).view(b, t, HEADS, HEAD_DIM).transpose(1, 2)
        v = self.wv(h).view(b, t, HEADS, HEAD_DIM).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        cache[0][:, :, start : start + t] = k
        cache[1][:, :, start : start + t] = v
        keys, values = cache[0][:, :, : start + t], cache[1][:, :, : start + t]
        y = F.scaled_dot_product_attention(q, keys, values, is_causal=t > 1)
        x = x + self.wo(y.transpose(1, 2).reshape(b, t, DIM))
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def make(device: torch.device) -> Callable[[], None]:
    torch.manual_seed(5)
    dtype = torch.bfloat16
    embed = nn.Embedding(VOCAB, DIM).to(device, dtype)
    layers = nn.ModuleList([Layer() for _ in range(LAYERS)]).to(device, dtype)
    norm = RMSNorm(DIM).to(device, dtype)
    angle = torch.outer(
        torch.arange(PROMPT + NEW).float(), 10000.0 ** (-torch.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    )
    angle = torch.cat((angle, angle), dim=-1).to(device)
    cos, sin = angle.cos().to(dtype), angle.sin().to(dtype)
    shape = (2, BATCH, HEADS, PROMPT + NEW, HEAD_DIM)
    caches: List[torch.Tensor] = [
        torch.zeros(shape, device=device, dtype=dtype) for _ in range(LAYERS)
    ]
    prompt = torch.randint(0, VOCAB, (BATCH, PROMPT), device=device)

    @torch.no_grad()
    def step() -> None:
        tokens, start, out = prompt, 0, []
        for _ in range(NEW):
            end = start + tokens.size(1)
            x = embed(tokens)
            for layer, cache in zip(layers, caches):
                x = layer(x, cache, start, cos[start:end], sin[start:end])
            logits = F.linear(norm(x[:, -1]), embed.weight)
            tokens, start = logits.argmax(dim=-1, keepdim=True), end
            out.append(tokens)
        torch.cat(out, dim=1).tolist()

    return step
