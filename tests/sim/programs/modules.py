"""Programs with modules: moved, loaded, copied and saved."""

import copy
import io
import pickle

import torch
from torch import nn

from .grid import grid


def a_small_network(device):
    torch.manual_seed(0)
    m = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 3)).to(device)
    x = grid(device) / 10
    return m(x), [p.device.type == torch.device(device).type for p in m.parameters()]


def module_state(device):
    torch.manual_seed(0)
    m = nn.BatchNorm1d(6).to(device)
    x = grid(device)
    m(x)
    sd = m.state_dict()
    m2 = nn.BatchNorm1d(6).to(device)
    m2.load_state_dict(sd)
    m3 = nn.BatchNorm1d(6)
    m3.load_state_dict(sd)
    m4 = nn.BatchNorm1d(6).to(device)
    m4.load_state_dict(m3.state_dict())
    return (
        [*m2.state_dict().values()],
        [v.cpu() for v in m3.state_dict().values()],
        m2.eval()(x),
        m4.running_mean,
    )


def module_load_assign(device):
    torch.manual_seed(0)
    m = nn.Linear(3, 3).to(device)
    sd = {k: v.clone() for k, v in m.state_dict().items()}
    m2 = nn.Linear(3, 3, device="meta")
    m2.load_state_dict(sd, assign=True)
    return m2(torch.ones(1, 3, device=device)), m2.weight.device.type == torch.device(device).type


def module_buffers(device):
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.register_buffer("b", torch.arange(3.0))
            s.w = nn.Parameter(torch.ones(3))

        def forward(s, x):
            s.b[0] += 1
            s.b.copy_(s.b * 2)
            return x * s.w + s.b

    m = M().to(device)
    y = m(torch.ones(3, device=device))
    m.half()
    m.float()
    m.to(torch.float64)
    return y, m.b, m.w, isinstance(m.w, nn.Parameter), m.w.requires_grad


def module_to_empty(device):
    m = nn.Linear(3, 2, device="meta").to_empty(device=device)
    with torch.no_grad():
        nn.init.ones_(m.weight)
        m.bias.zero_()
    return m(torch.ones(1, 3, device=device))


def module_default_device(device):
    with torch.device(device):
        m = nn.Linear(3, 2)
        x = torch.ones(2, 3)
        e = nn.Embedding(5, 3)
        z = torch.tensor([1, 2])
        a = torch.arange(3)
        layer = torch.linspace(0, 1, 3)
        f = torch.full((2,), 3)
    return (
        tuple(m(x).shape),
        m.weight.device.type == torch.device(device).type,
        z,
        a,
        layer,
        f,
        e.weight.shape[0],
    )


def default_device_set(device):
    torch.set_default_device(device)
    try:
        x = torch.ones(3)
        y = torch.tensor([1.0, 2.0])
        z = x[0] + y
    finally:
        torch.set_default_device(None)
    return x, y, z


def module_cpu_back(device):
    m = nn.Linear(3, 3)
    torch.nn.init.ones_(m.weight)
    torch.nn.init.zeros_(m.bias)
    o = m.to(device).cpu()
    return o(torch.ones(1, 3)), o.weight.device.type, m.weight.device.type


def tied_weights(device):
    e = nn.Embedding(5, 3)
    layer = nn.Linear(3, 5, bias=False)
    layer.weight = e.weight
    m = nn.ModuleList([e, layer]).to(device)
    return m[0].weight is m[1].weight


def saving_and_loading(device):
    x = grid(device)
    b = io.BytesIO()
    torch.save({"x": x, "y": [x[1:]]}, b)
    b.seek(0)
    r = torch.load(b, weights_only=False)
    b.seek(0)
    r2 = torch.load(b, map_location="cpu", weights_only=False)
    return (
        r["x"],
        r["y"][0],
        r["x"].device.type == torch.device(device).type,
        r2["x"].cpu(),
        r2["x"].device.type,
    )


def loading_weights_onto_a_device(device):
    m = nn.Linear(2, 2)
    m.weight.data.fill_(1)
    m.bias.data.zero_()
    m = m.to(device)
    b = io.BytesIO()
    torch.save(m.state_dict(), b)
    b.seek(0)
    r = torch.load(b, map_location=device)
    return r["weight"], r["weight"].device.type == torch.device(device).type


def deep_copies(device):
    m = nn.Linear(2, 2)
    m.weight.data.fill_(1)
    m.bias.data.zero_()
    m = m.to(device)
    n = copy.deepcopy(m)
    n.weight.data.add_(1)
    x = grid(device)
    y = copy.copy(x)
    z = copy.deepcopy([x, x])
    w = pickle.loads(pickle.dumps({"a": x[1]}))
    return m.weight, n.weight, isinstance(n.weight, nn.Parameter), y, z[0] is z[1], w["a"]


def deep_copies_of_leaves(device):
    w = torch.ones(2, device=device, requires_grad=True)
    v = copy.deepcopy(w)
    return v.requires_grad, v.is_leaf, v
