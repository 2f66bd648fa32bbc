"""Products, convolutions, attention, normalisations, recurrent layers and optimizers."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import nn

from .draw import Case, Draw, Run


def cases() -> Iterator[Case]:
    for make in (_product, _linear, _batched):
        yield Case(make, 200)
    yield Case(_convolution, 200)
    yield Case(_convolution_1d, 30)
    yield Case(_transposed, 24)
    yield Case(_attention, 400)
    for make in (_layer_norm, _batch_norm, _group_norm):
        yield Case(make, 36)
    for make in (_pool, _resize):
        yield Case(make, 24)
    yield Case(_recurrent, 80)
    yield Case(_optimizer, 72)
    yield Case(_clip, 16)
    yield Case(_lists, 40)


def _product(draw: Draw) -> Run:
    dtype, rows = draw.dtype(), draw.size(1, 4096)
    inner, columns = draw.size(4, 4096), draw.size(1, 8192)
    a, b = draw.floats(rows, inner, dtype=dtype), draw.floats(inner, columns, dtype=dtype)
    way = draw.one_of(("nn", "nt", "tn"))
    if way == "nt":
        b = b.t().contiguous().t()
    if way == "tn":
        a = a.t().contiguous().t()
    return lambda: a @ b


def _linear(draw: Draw) -> Run:
    dtype, bias = draw.dtype(), draw.random.random() < 0.7
    layer = nn.Linear(draw.size(2, 4096), draw.size(1, 8192), bias, draw.device, dtype)
    x = draw.floats(draw.size(1, 4096), layer.in_features, dtype=dtype).requires_grad_()
    if draw.random.random() < 0.5:
        return lambda: layer(x.detach())
    return lambda: layer(x).sum().backward()


def _batched(draw: Draw) -> Run:
    dtype, batch = draw.dtype(), draw.size(1, 256)
    rows, inner, columns = (draw.size(1, 1024) for _ in range(3))
    a, b = draw.floats(batch, rows, inner, dtype=dtype), draw.floats(batch, inner, columns)
    b = b.to(dtype)
    if draw.random.random() < 0.5:
        b = b.transpose(1, 2).contiguous().transpose(1, 2)
    return lambda: torch.bmm(a, b)


def _channels(draw: Draw) -> tuple[int, int, int]:
    groups = draw.one_of((1, 1, 1, 0))
    inputs, outputs = draw.one_of((1, 3, 3, draw.size(4, 256))), draw.size(4, 256)
    return (inputs, outputs, 1) if groups else (outputs, outputs, outputs)


def _convolution(draw: Draw) -> Run:
    inputs, outputs, groups = _channels(draw)
    kernel, stride = draw.one_of((1, 3, 3, 5)), draw.one_of((1, 1, 2))
    bias, dtype = draw.one_of((True, False)), draw.dtype()
    layer = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, 1, groups, bias)
    layer.to(draw.device, dtype)
    side = draw.size(7, 128)
    x = draw.floats(draw.size(1, 64), inputs, side, side, dtype=dtype)
    x.requires_grad_(draw.random.random() < 0.7)
    if draw.random.random() < 0.3:
        return lambda: layer(x.detach())
    return lambda: layer(x).sum().backward()


def _convolution_1d(draw: Draw) -> Run:
    inputs, outputs, groups = _channels(draw)
    layer = nn.Conv1d(inputs, outputs, draw.one_of((1, 3, 5)), padding=1, groups=groups)
    layer.to(draw.device)
    x = draw.floats(draw.size(1, 64), inputs, draw.size(8, 2048)).requires_grad_()
    return lambda: layer(x).sum().backward()


def _transposed(draw: Draw) -> Run:
    inputs, outputs, side = draw.size(4, 128), draw.size(1, 128), draw.size(4, 64)
    layer = nn.ConvTranspose2d(inputs, outputs, draw.one_of((2, 4)), 2).to(draw.device)
    x = draw.floats(draw.size(1, 64), inputs, side, side).requires_grad_()
    return lambda: layer(x).sum().backward()


def _attention(draw: Draw) -> Run:
    dtype, batch, heads = draw.dtype(), draw.size(1, 64), draw.size(1, 16)
    queries, head = draw.size(1, 1024), draw.one_of((16, 32, 32, 64, 64, 128))
    keys = queries if draw.random.random() < 0.6 else draw.size(1, 1024)
    q = draw.floats(batch, heads, queries, head, dtype=dtype)
    k, v = (draw.floats(batch, heads, keys, head, dtype=dtype) for _ in range(2))
    way = draw.one_of(("plain", "causal", "mask", "numbers"))
    mask = draw.floats(batch, 1, 1, keys) > -1 if way in ("mask", "numbers") else None
    if mask is not None and way == "numbers":
        mask = torch.where(mask, 0.0, float("-inf")).to(dtype)
    causal = way == "causal" and keys == queries

    def run() -> None:
        out = F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal)
        if q.requires_grad:
            out.sum().backward()

    if draw.random.random() < 0.5:
        for tensor in (q, k, v):
            tensor.requires_grad_()
    return run


def _layer_norm(draw: Draw) -> Run:
    dtype, width = draw.dtype(), draw.size(8, 4096, 4)
    x = draw.floats(draw.size(1, 16384), width, dtype=dtype).requires_grad_()
    kind = draw.one_of((nn.LayerNorm, nn.LayerNorm, nn.RMSNorm))
    layer = kind(width).to(draw.device, dtype)
    if draw.random.random() < 0.4:
        return lambda: layer(x.detach())
    return lambda: (layer(x) * x).sum().backward()


def _image(draw: Draw, channels: int) -> torch.Tensor:
    side = draw.size(4, 112)
    return draw.floats(draw.size(1, 64), channels, side, side).requires_grad_()


def _batch_norm(draw: Draw) -> Run:
    channels = draw.size(4, 512)
    layer: nn.Module = nn.BatchNorm2d(channels).to(draw.device)
    x = _image(draw, channels)
    if draw.random.random() < 0.3:
        layer = nn.BatchNorm1d(channels).to(draw.device)
        x = draw.floats(draw.size(2, 8192), channels).requires_grad_()
    if draw.random.random() < 0.4:
        layer.eval()
        half = draw.random.random() < 0.5
        x = x.detach().bfloat16() if half else x.detach()
        layer = layer.bfloat16() if half else layer
        return lambda: layer(x)
    return lambda: (layer(x) * x).sum().backward()


def _group_norm(draw: Draw) -> Run:
    groups = draw.one_of((1, 4, 8, 32))
    channels = groups * draw.size(1, 16)
    layer, x = nn.GroupNorm(groups, channels).to(draw.device), _image(draw, channels)
    return lambda: (layer(x) * x).sum().backward()


def _pool(draw: Draw) -> Run:
    x = _image(draw, draw.size(1, 256))
    way = draw.one_of(("max", "average", "adaptive", "all"))
    return {
        "max": lambda: F.max_pool2d(x, 2).sum().backward(),
        "average": lambda: F.avg_pool2d(x, 2).sum().backward(),
        "adaptive": lambda: F.adaptive_avg_pool2d(x, 4).sum().backward(),
        "all": lambda: F.adaptive_avg_pool2d(x, 1).sum().backward(),
    }[way]


def _resize(draw: Draw) -> Run:
    x = _image(draw, draw.size(1, 64))
    mode = draw.one_of(("nearest", "bilinear", "bicubic"))
    return lambda: F.interpolate(x, scale_factor=2, mode=mode).sum().backward()


def _recurrent(draw: Draw) -> Run:
    width, hidden, batch = draw.size(4, 512), draw.size(8, 512), draw.size(1, 128)
    kind, layers = draw.one_of((nn.LSTM, nn.GRU)), draw.size(1, 2)
    layer = kind(width, hidden, layers, batch_first=True).to(draw.device)
    x = draw.floats(batch, draw.size(1, 64), width).requires_grad_()
    way = draw.one_of(("forward", "training", "cell"))
    if way == "cell":
        cell = {nn.LSTM: nn.LSTMCell, nn.GRU: nn.GRUCell}[kind](width, hidden).to(draw.device)
        return lambda: cell(x[:, 0])
    if way == "forward":
        return lambda: layer(x.detach())
    return lambda: layer(x)[0].sum().backward()


def _parameters(draw: Draw) -> list[torch.Tensor]:
    count, width = draw.size(1, 64), draw.size(8, 1024)
    shapes = [(width, draw.size(1, width)) if n % 2 else (width,) for n in range(count)]
    parameters = [draw.floats(*shape).requires_grad_() for shape in shapes]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    return parameters


def _optimizer(draw: Draw) -> Run:
    kind = draw.one_of((torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop))
    options = {"lr": 1e-3}
    if kind is torch.optim.SGD and draw.random.random() < 0.7:
        options["momentum"] = 0.9
    if kind in (torch.optim.Adam, torch.optim.AdamW) and draw.random.random() < 0.4:
        options["fused"] = True
    return kind(_parameters(draw), **options).step


def _clip(draw: Draw) -> Run:
    parameters = _parameters(draw)
    return lambda: nn.utils.clip_grad_norm_(parameters, 1.0)


def _lists(draw: Draw) -> Run:
    tensors = [tensor.detach() for tensor in _parameters(draw)]
    name = draw.one_of(("add_", "mul_", "lerp_", "zero_", "sqrt", "copy_", "norm"))
    function = getattr(torch, f"_foreach_{name}")
    more = {"add_": (1.0,), "mul_": (0.9,), "lerp_": (tensors, 0.1), "copy_": (tensors,)}
    return lambda: function(tensors, *more.get(name, ()))
