"""Train a sequence model with top-2 mixture-of-experts layers that send each token to its experts in a loop over experts."""

from typing import Callable

import torch
from torch import nn
import torch.nn.functional as F


class Expert(nn.Module):
    def __init__(self, dim: int, hidden: int):
        super().__init__()
        self.w1, self.w3 = nn.Linear(dim, hidden, bias=False), nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class MoE(nn.Module):
    def __init__(self, dim: int, hidden: int, experts: int, k: int):
        super().__init__()
        self.k = k
        self.gate = nn.Linear(dim, experts, bias=False)
        self.experts = nn.ModuleList([Expert(dim, hidden) for _ in range(experts)])

    def forward(self, x):
        flat = x.reshape(-1, x.size(-1))
        probs = F.softmax(self.gate(flat), dim=-1)
        weight, chosen = probs.topk(self.k, dim=-1)
        weight = weight / weight.sum(dim=-1, keepdim=True)
        out = torch.zeros_like(flat)
        for e, expert in enumerate(self.experts):
            token, slot = torch.where(chosen == e)
            y = expert(flat[token]) * weight[token, slot].unsqueeze(-1)
            out = out.index_add(0, token, y)
        used = F.one_hot(chosen, len(self.experts)).float().sum(dim=1).mean(dim=0)
        balance = len(self.experts) * (used * probs.mean(dim=0)).sum()
        return out.view_as(x), balance


class Block(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.moe = MoE(dim, 2 * dim, experts=8, k=2)

    def forward(self, x, mask):
        h = self.n1(x)
        x = x + self.attn(h, h, h, attn_mask=mask, need_weights=False)[0]
        y, balance = self.moe(self.n2(x))
        return x + y, balance


def make(device: torch.device) -> Callable[[], None]:
    torch.manual_seed(15)
    vocab, dim, length, batch = 1500, 128, 40, 12
    embed, head = nn.Embedding(vocab, dim), nn.Linear(dim, vocab)
    blocks = nn.ModuleList([Block(dim) for _ in range(2)])
    model = nn.ModuleList([embed, blocks, head]).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    mask = torch.full((length, length), float("-inf"), device=device).triu(1)
    tokens = torch.randint(0, vocab, (16, batch, length + 1), device=device)
    i = 0

    def step() -> None:
        nonlocal i
        seq = tokens[i % 16]
        i += 1
        x, extra = embed(seq[:, :-1]), 0.0
        for block in blocks:
            x, balance = block(x, mask)
            extra = extra + balance
        loss = F.cross_entropy(head(x).flatten(0, 1), seq[:, 1:].flatten()) + 0.01 * extra
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        loss.detach().item()

    return step
