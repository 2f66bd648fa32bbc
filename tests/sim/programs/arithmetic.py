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


def bits(device):
    i = torch.arange(12, device=device)
    return (
        i & 3,
        i | 1,
        i ^ 2,
        i << 1,
        i >> 1,
        ~i,
        i % 5,
        -i,
        i.bool(),
        i.view(3, 4)[1:],
        i.to(torch.uint8).view(torch.int8),
        grid(device).view(torch.int32),
        i.bitwise_and(1) == 0,
    )


def reductions(device):
    x = grid(device)
    return (
        x.mean(),
        x.std(0),
        x.var(1, unbiased=False),
        x.norm(),
        x.amax(0),
        torch.aminmax(x),
        x.prod(),
        x.logsumexp(1),
        x.cumprod(1),
        x.count_nonzero(),
        x.all(),
        x.any(1),
        torch.histc(x, 4),
        torch.bincount(x.view(-1).long()),
        torch.bincount(x.view(-1).long() % 3, weights=x.view(-1)),
        x.quantile(0.3),
        x.nanmean(),
        x.argmax(),
        x.argmin(1),
        torch.var_mean(x, 1),
        x.sum(dtype=torch.float64),
        x.trace(),
        torch.cov(x),
        torch.corrcoef(x),
    )


def sorts(device):
    x = grid(device).flip(1)[:, [1, 0, 2, 4, 3, 5]]
    return (
        x.sort(),
        x.sort(0, True),
        x.argsort(),
        x.topk(3),
        x.kthvalue(2),
        x.median(1),
        x.msort(),
        torch.unique(x % 3, return_inverse=True, return_counts=True),
        torch.unique_consecutive(x > 4),
        x.unique(dim=0),
        x.max(1),
        x.min(0).indices,
        x.mode(1),
        x.cummax(1),
        torch.searchsorted(torch.arange(5.0, device=device), x),
    )


def einsum_bmm(device):
    a = torch.arange(24.0).view(2, 3, 4).to(device)
    return (
        torch.einsum("bij,bkj->bik", a, a),
        torch.bmm(a, a.mT),
        a @ a.mT,
        torch.einsum("bij->j", a),
        torch.baddbmm(torch.ones(2, 3, 3, device=device), a, a.mT),
        torch.einsum("ii->i", torch.arange(9.0).view(3, 3).to(device)),
    )


def linalg(device):
    m = torch.eye(3).to(device) * 2 + torch.ones(3, 3).to(device)
    return (
        torch.linalg.inv(m),
        torch.linalg.solve(m, m),
        torch.linalg.cholesky(m),
        torch.linalg.det(m),
        torch.linalg.qr(m)[1].abs(),
        torch.linalg.svdvals(m),
        torch.linalg.matrix_norm(m),
        torch.linalg.eigvalsh(m),
    )


def fft(device):
    x = grid(device)
    return (
        torch.fft.rfft(x).abs(),
        torch.fft.fft(x).real.round(),
        torch.stft(torch.arange(32.0).to(device), 8, return_complex=True).abs() if True else 0,
    )


def foreach(device):
    a = [grid(device), grid(device)[:2].clone()]
    torch._foreach_mul_(a, 2.0)
    b = torch._foreach_add(a, a)
    torch._foreach_zero_([a[0]])
    return a, b
