"""Programs with indexing, sorting, scattering, and routing to experts."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from .inputs import cpu_ints, cpu_rand


def index_put_variants(accelerator, device):
    x, rows = torch.zeros(6, 4, device=device), torch.tensor([0, 2], device=device)
    mask = (torch.arange(6) % 2 == 0).to(device)

    def run():
        x[rows] = 1.0
        x[mask] = 2.0
        x[mask, 1] = torch.tensor(3.0, device=device)
        x[rows, :2] = torch.ones(2, 2, device=device)
        x[1:3, rows] += 1
        x.index_put_((rows, rows), torch.ones(2, device=device), accumulate=True)
        x[[1, 3]] = 5
        x[0] = torch.arange(4.0)
        return x

    return run


def index_with_host_indices(accelerator, device):
    x = cpu_rand(8, 4).to(device)
    index, mask = torch.tensor([1, 2]), torch.tensor([True, False] * 4)

    def run():
        return x[index], x[mask], x[[0, 5]], x[np.array([1, 3])], x[3], x[::2, 1]

    return run


def where_one_and_three(accelerator, device):
    x = (cpu_rand(5, 6) - 0.5).to(device)

    def run():
        rows, columns = torch.where(x > 0)
        y = torch.where(x > 0, x, 0.0)
        z = torch.where(x > 0, x, torch.tensor(-1.0))
        return rows.numel(), columns, y, z

    return run


def nonzero_and_masked_select(accelerator, device):
    x = cpu_ints(3, (40,)).to(device)

    def run():
        where = x.nonzero(as_tuple=True)[0]
        picked = torch.masked_select(x, x > 1)
        both = torch.nonzero(x.view(8, 5) == 2)
        return where.shape, picked.sum(), len(both), torch.argwhere(x == 0).shape

    return run


def unique_and_counts(accelerator, device):
    x = cpu_ints(10, (64,)).to(device)

    def run():
        values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
        runs = torch.unique_consecutive(x.sort().values)
        return values.shape, counts[inverse], runs, torch.bincount(x, minlength=12)

    return run


def sorting_and_ranking(accelerator, device):
    x = cpu_rand(5, 64).to(device)

    def run():
        values, order = x.sort(-1)
        ranks = order.argsort(-1)
        top = x.flatten().topk(5).indices
        return (
            values,
            ranks,
            top,
            x.median(),
            x.kthvalue(3, -1).values,
            torch.searchsorted(values, x),
        )

    return run


def scatter_reductions(accelerator, device):
    x, group = cpu_rand(20).to(device), cpu_ints(4, (20,)).to(device)

    def run():
        total = torch.zeros(4, device=device).scatter_add_(0, group, x)
        count = torch.zeros(4, device=device).index_add_(0, group, torch.ones_like(x))
        largest = torch.full((4,), -1.0, device=device).scatter_reduce(0, group, x, "amax")
        return total / count, largest

    return run


def cumulative_ops(accelerator, device):
    x = cpu_rand(6, 10).to(device)

    def run():
        a, b = x.cumsum(-1), x.flatten().cumsum(0)
        c = (x > 0.5).cumsum(1)
        d = torch.diff(a, dim=-1, prepend=torch.zeros(6, 1, device=device))
        return a, b, c, d, torch.logcumsumexp(x, 1), x.cummax(1).values

    return run


def broadcasting_cpu_scalars(accelerator, device):
    x = cpu_rand(4, 4).to(device)
    scale, limit = torch.tensor(2.0), torch.tensor(0.5)

    def run():
        y = x * scale + 1
        y = torch.minimum(y, limit.to(device))
        y.mul_(0.5).add_(x, alpha=2).clamp_(0, 3)
        y += 1
        y[0, 0] = scale
        y.fill_(limit)
        return y.div_(scale)

    return run


def embedding_bag_and_one_hot(accelerator, device):
    bag = nn.EmbeddingBag(20, 8, mode="mean").to(device)
    ids, offsets = cpu_ints(20, (9,)).to(device), torch.tensor([0, 4, 6], device=device)

    def run():
        with torch.no_grad():
            a = bag(ids, offsets)
            b = F.one_hot(ids, 20).float().sum(0)
            c = F.embedding(ids, bag.weight, padding_idx=0)
        return a, b, c

    return run


def moe_routing_loop(accelerator, device):
    x, gate = cpu_rand(12, 8).to(device), cpu_rand(8, 4, seed=2).to(device)
    experts = [cpu_rand(8, 8, seed=3 + i).to(device) for i in range(4)]

    def run():
        weights, chosen = torch.topk((x @ gate).softmax(-1), 2)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        for number, expert in enumerate(experts):
            token, slot = torch.where(chosen == number)
            if token.numel() == 0:
                continue
            out.index_add_(0, token, (x[token] @ expert) * weights[token, slot, None])
        return out

    return run


def moe_routing_sorted(accelerator, device):
    x, gate = cpu_rand(12, 8).to(device), cpu_rand(8, 4, seed=2).to(device)
    experts = torch.stack([cpu_rand(8, 8, seed=3 + i) for i in range(4)]).to(device)

    def run():
        weights, chosen = torch.topk((x @ gate).softmax(-1), 2)
        order = chosen.flatten().argsort(stable=True)
        counts = torch.bincount(chosen.flatten(), minlength=4).tolist()
        parts = x[order // 2].split(counts)
        done = torch.cat([part @ w for part, w in zip(parts, experts, strict=True)])
        out = torch.empty_like(done)
        out[order] = done
        return (out.view(12, 2, 8) * weights[..., None]).sum(1)

    return run
