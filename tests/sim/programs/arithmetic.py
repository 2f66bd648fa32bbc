"""Programs with elementwise operators, reductions and products."""

import torch

from .grid import grid


def choosing_into_a_given_tensor(device):
    x = grid(device)
    o = torch.empty(4, 6, device=device)
    r = torch.where(x > 3, x, -x, out=o)
    assert r is o
    return o


def results_into_given_tensors(device):
    x = grid(device)
    o = torch.empty(0, device=device)
    torch.cumsum(x, 0, out=o)
    assert o.shape == (4, 6)
    o2 = torch.empty(8, 6, device=device)
    torch.cat([x, x], out=o2)
    o3 = torch.empty(2, 4, 6, device=device)
    torch.stack([x, x], out=o3)
    v = torch.empty(0, device=device)
    i = torch.empty(0, dtype=torch.long, device=device)
    torch.topk(x, 2, out=(v, i))
    torch.sort(x, 1, True, out=(v, i))
    torch.max(x, 1, out=(v, i))
    return o, o2, o3, v, i


def results_into_a_slice(device):
    x = grid(device)
    buf = torch.zeros(8, 6, device=device)
    torch.add(x, 1, out=buf[2:6])
    torch.mm(x, x.t(), out=torch.empty(4, 4, device=device))
    return buf


def mixing_dtypes(device):
    x = grid(device)
    i = torch.arange(6, device=device)
    return (
        x + i,
        i * 2.5,
        i + True,
        i / 2,
        i // 2,
        x.half() + x,
        torch.tensor(3, device=device) + i.int(),
        i.to(torch.uint8) + 200,
        x.bfloat16() * 2,
    )


def scalars(device):
    x = grid(device)
    s = torch.tensor(2.0)
    return (
        x.fill_(s).clone(),
        x.add_(s),
        x.mul(s),
        torch.full((2,), 3.0, device=device),
        x.clamp(min=1, max=s.item()),
        x + s,
        s + x,
        torch.add(x, s, alpha=2),
        x.pow(s),
        torch.where(x > 2, x, s),
        torch.where(x > 2, 1, 0),
        x.masked_fill(x > 3, s),
        x.lerp(x, 0.5),
        torch.rsub(x, 1),
        torch.addcmul(x, x, x, value=2),
        s.to(device) * torch.ones(2)
        if device == "cpu"
        else s.to(device) * torch.ones(2, device=device),
    )


def foreach(device):
    a = [grid(device), grid(device)[:2].clone()]
    torch._foreach_mul_(a, 2.0)
    b = torch._foreach_add(a, a)
    torch._foreach_zero_([a[0]])
    return a, b
