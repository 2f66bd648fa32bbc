"""Programs with gradients and optimisers."""

import torch
import torch.nn.functional as F
from torch import nn

from .grid import grid


def autograd(device):
    torch.manual_seed(0)
    w = torch.arange(6.0).to(device).requires_grad_()
    x = grid(device)
    y = (x * w).softmax(-1).pow(2).sum()
    y.backward()
    g = torch.autograd.grad((w**3).sum(), w)[0]
    return w.grad, g


def autograd_module(device):
    torch.manual_seed(0)
    m = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3)).to(device)
    o = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
    x = grid(device) / 10
    for _ in range(3):
        o.zero_grad()
        F.cross_entropy(m(x), torch.tensor([0, 1, 2, 0], device=device)).backward()
        o.step()
    return [p.detach() for p in m.parameters()]


def autograd_adam(device):
    torch.manual_seed(0)
    m = nn.Linear(6, 3).to(device)
    o = torch.optim.AdamW(m.parameters(), lr=0.1)
    x = grid(device) / 10
    for _ in range(3):
        o.zero_grad()
        m(x).pow(2).mean().backward()
        nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        o.step()
    return [p.detach() for p in m.parameters()]


def autograd_index(device):
    e = nn.Embedding(5, 3)
    e.weight.data.copy_(torch.arange(15.0).view(5, 3))
    e = e.to(device)
    i = torch.tensor([1, 1, 3], device=device)
    e(i).sum().backward()
    w = torch.ones(4, 3, device=device, requires_grad=True)
    (w[i[:2]] * 2).sum().backward()
    return e.weight.grad, w.grad


def autograd_inplace(device):
    w = torch.ones(3, 3, device=device, requires_grad=True)
    y = w * 2
    y[0] = 0
    y[1, 1] += 3
    y.mul_(2)
    y.sum().backward()
    return w.grad


def grad_flags(device):
    x = torch.ones(3, device=device, requires_grad=True)
    with torch.no_grad():
        y = x * 2
        x.add_(1)
    with torch.inference_mode():
        z = x * 2
        z.add_(1)
        z[0] = 5
        q = z.view(3, 1)
        q.t_()
        r = torch.zeros(3, device=device)
        r.copy_(z)
        r[r > 3] = 1
    return y.requires_grad, x.grad_fn is None, z.is_inference(), z, x.detach(), x.is_leaf, q, r


def gradients_of_attention(device):
    torch.manual_seed(1)
    q = torch.randn(2, 4, 5, 8).to(device).requires_grad_()
    F.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
    return q.grad


def training_a_gru(device):
    torch.manual_seed(0)
    g = nn.GRU(6, 3, batch_first=True).to(device)
    g(grid(device)[None])[0].sum().backward()
    return g.weight_ih_l0.grad


def requires_grad_param(device):
    p = nn.Parameter(grid(device))
    o = torch.optim.SGD([p], lr=0.1)
    (p**2).sum().backward()
    o.step()
    p2 = nn.Parameter(p.data[:2])
    return p.detach(), isinstance(p, nn.Parameter), p2, p.grad, p.data


def hooks(device):
    w = torch.ones(2, device=device, requires_grad=True)
    s = []
    w.register_hook(lambda g: s.append(g.clone()))
    (w * 3).sum().backward()
    return s


def checkpoint(device):
    from torch.utils.checkpoint import checkpoint as c

    w = torch.ones(2, device=device, requires_grad=True)
    c(lambda t: (t * 3).tanh(), w, use_reentrant=False).sum().backward()
    return w.grad


def custom_fn(device):
    class Fn(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * x

    w = torch.arange(3.0).to(device).requires_grad_()
    Fn.apply(w).sum().backward()
    return w.grad


def vmapfn(device):
    return torch.func.vmap(lambda v: v.sum() * v)(grid(device)), torch.func.grad(
        lambda v: (v**2).sum()
    )(grid(device))
