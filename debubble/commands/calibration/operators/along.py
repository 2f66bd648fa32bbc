"""Operators along a dimension: reductions, scans, sorts, softmax and losses."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F

from .draw import LARGEST, Case, Draw, Run

REDUCTIONS = "sum mean amax amin argmax prod var std logsumexp norm all any"
OF_ALL = "sum mean max min argmax var std norm any all"
SCANS = "cumsum cumprod softmax log_softmax sort argsort"


def cases() -> Iterator[Case]:
    for name in REDUCTIONS.split():
        yield Case(_along(name), 24)
    for name in OF_ALL.split():
        yield Case(_of_all(name), 10)
    for name in SCANS.split():
        yield Case(_along(name), 28)
    for make in (_sort_whole_numbers, _sum_of_others, _largest, _pairs, _sample, _softmax_gradient):
        yield Case(make, 24)
    for make in (_cross_entropy, _regression, _binary, _distances, _variance):
        yield Case(make, 16)


def _shaped(draw: Draw) -> tuple[torch.Tensor, int]:
    dtype = draw.dtype()
    x = draw.floats(*draw.shape(LARGEST), dtype=dtype)
    return x, draw.random.randrange(x.dim()) if draw.random.random() < 0.5 else x.dim() - 1


def _along(name: str) -> Callable[[Draw], Run]:
    def make(draw: Draw) -> Run:
        x, dimension = _shaped(draw)
        if name in ("all", "any"):
            x = x > 0
        return lambda: getattr(torch, name)(x, dim=dimension)

    return make


def _of_all(name: str) -> Callable[[Draw], Run]:
    def make(draw: Draw) -> Run:
        x, _ = _shaped(draw)
        if name in ("all", "any"):
            x = x > 0
        return lambda: getattr(torch, name)(x)

    return make


def _sort_whole_numbers(draw: Draw) -> Run:
    """Sorts whole numbers, as an index by groups or tokens by experts are sorted."""
    x = draw.indices(draw.size(2, 1 << 20), *draw.shape(LARGEST >> 2, draw.one_of((1, 1, 2))))
    is_stable = draw.random.random() < 0.3
    return lambda: x.sort(dim=-1, stable=is_stable)


def _sum_of_others(draw: Draw) -> Run:
    """Sums over all dimensions but one, as the gradient of a bias does."""
    x = draw.floats(*draw.shape(LARGEST, 3), dtype=draw.dtype())
    dimensions = draw.one_of(((0, 1), (0, 2), (1, 2)))
    return lambda: x.sum(dimensions)


def _largest(draw: Draw) -> Run:
    x = draw.floats(*draw.shape(LARGEST >> 2, draw.one_of((1, 2, 2))))
    if draw.random.random() < 0.3:
        x = (1000 * x).long()
    count = min(x.shape[-1], draw.size(1, 64))
    return lambda: x.topk(count, -1)


def _pairs(draw: Draw) -> Run:
    x, dimension = _shaped(draw)
    name = draw.one_of(("max", "min", "aminmax", "median", "cummax"))
    return lambda: getattr(torch, name)(x.float(), dim=dimension)


def _sample(draw: Draw) -> Run:
    x = draw.floats(draw.size(1, 64), draw.size(4, 65536)).softmax(-1)
    count = draw.size(1, 4)
    return lambda: x.multinomial(count, replacement=count > 1)


def _softmax_gradient(draw: Draw) -> Run:
    x = draw.floats(*draw.shape(LARGEST, 2), dtype=draw.dtype()).requires_grad_()
    function = draw.one_of((torch.softmax, torch.log_softmax))
    return lambda: (function(x, -1) * x).sum().backward()


def _cross_entropy(draw: Draw) -> Run:
    x = draw.floats(draw.size(4, 8192), draw.size(2, 8192)).requires_grad_()
    target = draw.indices(x.shape[1], len(x))
    return lambda: F.cross_entropy(x, target, label_smoothing=0.0).backward()


def _regression(draw: Draw) -> Run:
    x = draw.floats(*draw.shape(LARGEST)).requires_grad_()
    y = torch.randn_like(x)
    name = draw.one_of(("mse_loss", "smooth_l1_loss", "l1_loss", "huber_loss"))
    return lambda: getattr(F, name)(x, y).backward()


def _binary(draw: Draw) -> Run:
    x = draw.floats(*draw.shape(LARGEST)).requires_grad_()
    y = (x.detach() > 0).float()
    return lambda: F.binary_cross_entropy_with_logits(x, y).backward()


def _distances(draw: Draw) -> Run:
    x = draw.floats(draw.size(4, 2048), draw.size(2, 256))
    way = draw.one_of(("cdist", "cosine", "normalize"))
    if way == "cdist":
        return lambda: torch.cdist(x, x)
    return (lambda: F.cosine_similarity(x, x)) if way == "cosine" else (lambda: F.normalize(x))


def _variance(draw: Draw) -> Run:
    x, dimension = _shaped(draw)
    return lambda: torch.var_mean(x, dim=dimension, keepdim=True)
