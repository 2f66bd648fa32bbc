"""Programs with copies, conversions, and values that are read back."""

import torch

from .grid import grid


def copies(device):
    x = grid(device)
    x[:, 0].copy_(torch.ones(4))
    x[0].copy_(torch.tensor(3))
    x.copy_(torch.arange(6))
    y = torch.empty(4, 6, dtype=torch.int32, device=device)
    y.copy_(x)
    z = torch.empty(4, 6)
    z.copy_(x.t().contiguous().t())
    z[0] = x[1]
    z[:, 1] = x[:, 2]
    h = torch.empty(6, dtype=torch.float64)
    h.copy_(x[0])
    return x, y, z.clone(), h


def to_variants(device):
    x = grid(device)
    o = torch.empty(0, device=device, dtype=torch.float16)
    r = [
        x.to(o),
        x.type(torch.float64),
        x.type_as(o),
        x.half().float(),
        x.to(torch.int32).to(device),
        x.to("cpu"),
        x.cpu(),
        x.to(device=device, dtype=torch.bfloat16),
        x.to(device, copy=True),
        x.long(),
        x.to("cpu", torch.float64),
        x.t().cpu(),
        x.t().to("cpu", memory_format=torch.contiguous_format),
    ]
    return (
        [t.cpu() for t in r],
        r[0].device.type == torch.device(device).type,
        x.to(device) is x,
        x.numpy(force=True).tolist(),
        r[11].stride(),
    )


def tensors_from_tensors(device):
    x = grid(device)
    return (
        torch.asarray(x),
        torch.asarray(x, copy=True),
        torch.as_tensor([1, 2], device=device),
        torch.asarray([1.0, 2], device=device),
        torch.tensor(x),
        x.new_tensor([1, 2]),
        x.new_zeros(2),
        x.new_full((2,), 3),
        x.new_ones(2),
        x.new_empty(2).shape[0],
    )


def lists(device):
    x = grid(device)
    return (
        torch.stack([x[0], x[1]]),
        torch.cat([x, x[:1]], 0),
        torch.tensor([x[0, 0], x[1, 1]]),
        torch.stack([r.sum() for r in x]),
        sum(x),
        max(x[0]),
        sorted(x[1]),
        [float(v) for v in x[0]],
        x.tolist(),
        3.0 in x,
    )


def bools(device):
    x = grid(device)
    r = []
    if x[0, 0] == 0:
        r.append(1)
    if (x > 3).any():
        r.append(2)
    while x.sum() > 0:
        x -= 10
        r.append(3)
    assert x.max() < 100
    return (
        r,
        torch.equal(x, x),
        torch.allclose(x, x + 1e-9),
        x.equal(x.clone()),
        bool((x == x).all()),
        not x[0, 0],
        x[0, 0] and 3,
    )


def item_noncontig(device):
    x = grid(device)
    return (
        x.t()[3, 1].item(),
        float(x[::2, 1][1]),
        int(x[1:, 2:][0, 0]),
        bool(x[0, 0]),
        x[1, 1].tolist(),
        round(x[2, 2].item()),
        f"{x[1, 1]:.2f}",
        x[1, 1].__index__() if False else 0,
        x.sum().item(),
    )


def delitem(device):
    x = torch.zeros(0, 5, device=device)
    y = torch.zeros(3, 0, device=device)
    return (
        torch.cat([x, torch.ones(1, 5, device=device)]),
        y.sum(1),
        x.mean(0).isnan(),
        x.tolist(),
        torch.zeros(0, device=device).sum().item(),
        x.cpu(),
        torch.empty(0, device=device).max if False else 0,
    )


def namedt(device):
    r = grid(device).max(0)
    return (
        r.values,
        r.indices,
        type(r).__name__,
        grid(device).sort().values,
        grid(device).topk(2).indices,
        torch.linalg.slogdet(torch.eye(2, device=device)).logabsdet,
        torch.std_mean(grid(device))[0],
    )


def printing(device):
    x = grid(device)
    return (
        f"{x[0, 0]}",
        f"{x[0, 0]:.3f}",
        str(x[0, 0].item()),
        repr(x[0]).replace(", device='sim:0'", ""),
        str(torch.zeros(0, device=device)).replace(", device='sim:0'", ""),
        repr(torch.ones(2, device=device, dtype=torch.half)).replace(", device='sim:0'", ""),
        repr(torch.ones(2, device=device, requires_grad=True)).replace(", device='sim:0'", ""),
        repr(torch.nn.Parameter(torch.ones(2, device=device))).replace(", device='sim:0'", ""),
        repr(torch.ones(2, device=device, requires_grad=True) * 2).replace(", device='sim:0'", ""),
    )
