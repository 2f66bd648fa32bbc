"""Sample tokens with temperature, top-k and top-p from a float16 mixture-of-experts decoder whose KV cache grows by concatenation."""

import math
from typing import Callable

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.in_proj = nn.Linear(dim, 3 * dim)
        self.out_proj = nn.Linear(dim, dim)

    def forward(self, x, past):
        b, t, d = x.shape
        q, k, v = (
            self.in_proj(x).view(b, t, 3, self.heads, self.hd).permute(2, 0, 3, 1, 4).unbind(0)
        )
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.hd)
        if t > 1:
            mask = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(mask, float("-inf"))
        y = torch.matmul(torch.softmax(scores, dim=-1), v)
        return self.out_proj(y.transpose(1, 2).reshape(b, t, d)), (k, v)


class DenseExperts(nn.Module):
    def __init__(self, dim: int, hidden: int, experts: int):
        super().__init__()
        self.router = nn.Linear(dim, experts, bias=False)
        self.w1 = nn.Parameter(torch.randn(experts, dim, hidden) / math.sqrt(dim))
        self.w2 = nn.Parameter(torch.randn(experts, hidden, dim) / math.sqrt(hidden))

    def forward(self, x):
        flat = x.reshape(-1, x.size(-1))
        top, index = self.router(flat).topk(2, dim=-1)
        gates = flat.new_zeros(flat.size(0), self.w1.size(0)).scatter_(1, index, top.softmax(-1))
        h = torch.einsum("td,edh->eth", flat, self.w1).relu()
        y = torch.bmm(h, self.w2)
        return (y * gates.t().unsqueeze(-1)).sum(dim=0).view_as(x)


def sample(logits, temperature: float = 0.8, k: int = 50, p: float = 0.95):
    values, index = torch.topk(logits.float() / temperature, k, dim=-1)
    probs = torch.softmax(values, dim=-1)
    drop = torch.cumsum(probs, dim=-1) - probs > p
    probs = probs.masked_fill(drop, 0.0)
    choice = torch.multinomial(probs / probs.sum(-1, keepdim=True), 1)
    return torch.gather(index, -1, choice)


def make(device: torch.device) -> Callable[[], None]:
    torch.manual_seed(6)
    dim, layers, vocab, batch, prompt_len, new = 128, 3, 4000, 8, 16, 16
    embed, pos = nn.Embedding(vocab, dim).to(device).half(), nn.Embedding(64, dim).to(device).half()
    attns = nn.ModuleList([Attention(dim, 4) for _ in range(layers)]).to(device).half()
    moes = nn.ModuleList([DenseExperts(dim, 128, 4) for _ in range(layers)]).to(device).half()
    norms = nn.ModuleList([nn.LayerNorm(dim) for _ in range(2 * layers + 1)]).to(device).half()
    head = nn.Linear(dim, vocab).to(device).half()
    prompt = torch.randint(0, vocab, (batch, prompt_len), device=device)

    @torch.no_grad()
    def step() -> None:
        past, tokens, seen, sequence = [None] * layers, prompt, 0, prompt
        for _ in range(new):
            where = torch.arange(seen, seen + tokens.size(1), device=device)
            x = embed(tokens) + pos(where)
            for i in range(layers):
                y, past[i] = attns[i](norms[2 * i](x), past[i])
                x = x + y
                x = x + moes[i](norms[2 * i + 1](x))
            seen += tokens.size(1)
            tokens = sample(head(norms[-1](x[:, -1, :])))
            sequence = torch.cat([sequence, tokens], dim=1)
        sequence.cpu()

    return step
