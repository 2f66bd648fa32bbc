"""Elementwise operators, copies, indexing and random numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F

from debubble.private.torch import index_put_impl

from .draw import LARGEST, Case, Draw, Run

UNARY = (
    "neg abs exp log sqrt rsqrt sin cos tanh sigmoid relu erf reciprocal square floor round log1p"
    " isnan isfinite logical_not softplus silu gelu leaky_relu elu hardtanh hardswish mish"
)
BINARY = (
    "add sub mul div maximum minimum eq lt ge logical_and atan2 fmod copysign floor_divide"
    " remainder pow"
)
IN_PLACE = "add_ mul_ copy_ div_ sub_"
RANDOM = "normal_ uniform_ exponential_ bernoulli_ random_"
GRADIENTS = "tanh sigmoid relu gelu silu exp sqrt softplus leaky_relu elu square abs clamp_min"


def cases() -> Iterator[Case]:
    for name in UNARY.split():
        yield Case(_unary(name), 14)
    for name in (*BINARY.split(), *IN_PLACE.split()):
        yield Case(_binary(name), 16)
    for name in GRADIENTS.split():
        yield Case(_gradient(name), 6)
    for name in RANDOM.split():
        yield Case(_in_place(name), 8)
    for make in (_where, _masked_fill, _lerp, _addcmul, _clamp, _scalar, _whole_numbers, _bools):
        yield Case(make, 20)
    for make in (_to, _clone, _contiguous, _cat, _stack, _flip, _roll, _repeat, _pad, _triangle):
        yield Case(make, 20)
    for make in (_rows, _gather, _scatter, _put, _scatter_reduce, _embedding, _of_mask, _selected):
        yield Case(make, 60)
    for make in (_factories, _dropout, _one_hot, _search, _unique, _bincount, _permutation):
        yield Case(make, 16)


def _floats(draw: Draw) -> torch.Tensor:
    return draw.in_a_layout(draw.floats(*draw.shape(LARGEST), dtype=draw.dtype()))


def _function(name: str) -> Callable[..., torch.Tensor]:
    return getattr(torch if hasattr(torch, name) else F, name)


def _unary(name: str) -> Callable[[Draw], Run]:
    def make(draw: Draw) -> Run:
        x = _floats(draw).abs()
        return lambda: _function(name)(x)

    return make


def _binary(name: str) -> Callable[[Draw], Run]:
    def make(draw: Draw) -> Run:
        x = _floats(draw)
        other = draw.beside(x)
        return lambda: getattr(torch.Tensor, name)(x, other)

    return make


def _in_place(name: str) -> Callable[[Draw], Run]:
    def make(draw: Draw) -> Run:
        x = draw.floats(*draw.shape(LARGEST))
        return getattr(x, name)

    return make


def _gradient(name: str) -> Callable[[Draw], Run]:
    def make(draw: Draw) -> Run:
        x = draw.floats(*draw.shape(LARGEST), dtype=draw.dtype()).abs_().requires_grad_()
        function = _function(name)
        return lambda: (function(x, 0.5) if name == "clamp_min" else function(x)).sum().backward()

    return make


def _where(draw: Draw) -> Run:
    x = _floats(draw)
    mask, other = x > 0, draw.beside(x)
    return lambda: torch.where(mask, x, other)


def _masked_fill(draw: Draw) -> Run:
    x = _floats(draw)
    mask = x[:1] > 0
    return lambda: x.masked_fill(mask, 0.5)


def _lerp(draw: Draw) -> Run:
    x = draw.floats(*draw.shape(LARGEST))
    return lambda: x.lerp_(x, 0.1)


def _addcmul(draw: Draw) -> Run:
    x = draw.floats(*draw.shape(LARGEST))
    name = draw.one_of(("addcmul", "addcdiv"))
    return lambda: getattr(x, name)(x, x, value=0.5)


def _clamp(draw: Draw) -> Run:
    x = _floats(draw)
    return lambda: x.clamp(-1, 1)


def _scalar(draw: Draw) -> Run:
    x = _floats(draw)
    name = draw.one_of(("add", "mul", "div", "sub", "pow", "gt", "eq", "lt", "rsub"))
    return lambda: getattr(torch, name)(x, 2)


def _whole_numbers(draw: Draw) -> Run:
    x = draw.indices(1000, *draw.shape(LARGEST))
    if draw.random.random() < 0.3:
        x = x.int()
    name = draw.one_of(("add", "mul", "eq", "ge", "lt", "remainder", "floor_divide", "maximum"))
    other = 3 if draw.random.random() < 0.5 else x + 1
    return lambda: getattr(torch.Tensor, name)(x, other) if name != "maximum" else x.maximum(x)


def _bools(draw: Draw) -> Run:
    x = draw.floats(*draw.shape(LARGEST)) > 0
    name = draw.one_of(("bitwise_and", "bitwise_or", "logical_not", "bitwise_not"))
    other = (x,) if name in ("bitwise_and", "bitwise_or") else ()
    return lambda: getattr(torch, name)(x, *other)


TYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.int32, torch.float64)


def _to(draw: Draw) -> Run:
    x = _floats(draw).to(draw.one_of(TYPES))
    to = draw.one_of(TYPES)
    return lambda: x.to(to)


def _clone(draw: Draw) -> Run:
    x = _floats(draw)
    return lambda: x.clone()


def _contiguous(draw: Draw) -> Run:
    x = draw.floats(*draw.shape(LARGEST, 3), dtype=draw.dtype())
    places = draw.one_of(((0, 1), (1, 2), (0, 2)))
    return lambda: x.transpose(*places).contiguous()


def _cat(draw: Draw) -> Run:
    x = draw.floats(*draw.shape(LARGEST >> 2, 2), dtype=draw.dtype())
    parts, along = [x] * draw.size(2, 32), draw.one_of((0, 1))
    return lambda: torch.cat(parts, along)


def _stack(draw: Draw) -> Run:
    parts = [draw.floats(*draw.shape(LARGEST >> 4, 2))] * draw.size(2, 32)
    along = draw.one_of((0, 1))
    return lambda: torch.stack(parts, along)


def _flip(draw: Draw) -> Run:
    x = draw.floats(*draw.shape(LARGEST, 2))
    return lambda: x.flip(draw.one_of((0, 1)))


def _roll(draw: Draw) -> Run:
    x = draw.floats(*draw.shape(LARGEST, 2))
    return lambda: x.roll(3, 1)


def _repeat(draw: Draw) -> Run:
    x = draw.floats(*draw.shape(LARGEST >> 3, 2))
    times = draw.size(2, 8)
    if draw.random.random() < 0.5:
        return lambda: x.repeat_interleave(times, 0)
    return lambda: x.repeat(times, 1)


def _pad(draw: Draw) -> Run:
    x = draw.floats(*draw.shape(LARGEST, 3))
    return lambda: F.pad(x, [1, 2])


def _triangle(draw: Draw) -> Run:
    x = draw.floats(*draw.shape(LARGEST, 2))
    name = draw.one_of(("tril", "triu"))
    return lambda: getattr(x, name)()


def _table(draw: Draw) -> torch.Tensor:
    return draw.floats(draw.size(8, 65536), draw.size(1, 512), dtype=draw.dtype())


def _rows(draw: Draw) -> Run:
    table = _table(draw)
    index = draw.indices(len(table), draw.size(4, 65536))
    if draw.random.random() < 0.5:
        return lambda: table[index]
    return lambda: table.index_select(0, index)


def _gather(draw: Draw) -> Run:
    table = _table(draw)
    index = draw.indices(table.shape[1], len(table), draw.size(1, 16))
    return lambda: table.gather(1, index)


def _scatter(draw: Draw) -> Run:
    table = _table(draw).float()
    index = draw.indices(table.shape[1], len(table), min(table.shape[1], draw.size(1, 16)))
    values = draw.floats(*index.shape)
    name = draw.one_of(("scatter_", "scatter_add_"))
    return lambda: getattr(table, name)(1, index, values)


def _put(draw: Draw) -> Run:
    table = _table(draw).float()
    index = draw.indices(len(table), draw.size(4, 16384))
    values = draw.floats(len(index), table.shape[1])
    way = draw.one_of(("put", "accumulate", "gradient", "add"))
    if way == "add":
        return lambda: table.index_add_(0, index, values)
    if way == "gradient":  # An index's gradient accumulates without a check of the indices.
        return lambda: index_put_impl(table, [index], values, True, True)
    return lambda: table.index_put_((index,), values, accumulate=way == "accumulate")


def _scatter_reduce(draw: Draw) -> Run:
    table = draw.floats(draw.size(4, 65536))
    index = draw.indices(len(table), draw.size(16, 1 << 20))
    values = draw.floats(len(index))
    way = draw.one_of(("sum", "amax", "mean"))
    return lambda: table.scatter_reduce(0, index, values, way)


def _embedding(draw: Draw) -> Run:
    table = _table(draw).requires_grad_()
    index = draw.indices(len(table), draw.size(1, 64), draw.size(4, 512))
    return lambda: F.embedding(index, table).sum().backward()


def _of_mask(draw: Draw) -> Run:
    x = draw.floats(*draw.shape(LARGEST, 1))
    mask = x > draw.one_of((-1, 0, 2))
    way = draw.one_of(("index", "select", "nonzero"))
    if way == "index":
        return lambda: x[mask]
    return (lambda: mask.nonzero()) if way == "nonzero" else (lambda: x.masked_select(mask))


def _selected(draw: Draw) -> Run:
    x = draw.floats(*draw.shape(LARGEST, 2))
    rows, columns = (torch.arange(min(x.shape), device=draw.device),) * 2
    return lambda: x[rows, columns]


def _factories(draw: Draw) -> Run:
    size = draw.size(4, LARGEST)
    name = draw.one_of(("zeros", "ones", "arange", "rand", "randn", "eye", "linspace", "randint"))
    more = {"eye": (min(size, 2048),), "linspace": (0, 1, size), "randint": (9, (size,))}
    return lambda: getattr(torch, name)(*more.get(name, (size,)), device=draw.device)


def _dropout(draw: Draw) -> Run:
    x = draw.floats(*draw.shape(LARGEST), dtype=draw.dtype()).requires_grad_()
    return lambda: F.dropout(x, 0.1).sum().backward()


def _one_hot(draw: Draw) -> Run:
    classes = draw.size(2, 1024)
    x = draw.indices(classes, draw.size(4, 8192))
    return lambda: F.one_hot(x, classes)


def _search(draw: Draw) -> Run:
    edges = draw.floats(draw.size(4, 65536)).sort().values
    x = draw.floats(draw.size(4, 1 << 20))
    return lambda: torch.searchsorted(edges, x)


def _unique(draw: Draw) -> Run:
    x = draw.indices(draw.size(2, 65536), draw.size(16, 1 << 20))
    counts = draw.one_of((True, False))
    return lambda: x.unique(return_counts=counts, return_inverse=not counts)


def _bincount(draw: Draw) -> Run:
    x = draw.indices(draw.size(2, 4096), draw.size(16, 1 << 20))
    return lambda: x.bincount(minlength=16)


def _permutation(draw: Draw) -> Run:
    size = draw.size(4, 1 << 20)
    return lambda: torch.randperm(size, device=draw.device)
