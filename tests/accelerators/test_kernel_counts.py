"""Operators that sort launch as many kernels as on the H200, whatever the size and the dtype."""

import json

import pytest
import torch

import debubble
from debubble.assets import ASSETS

COUNTED = json.loads((ASSETS / "effects" / "nvidia-h200-sizes.json").read_text())["kernels"]


def values(device, shape, dtype):
    chosen = torch.rand(shape, generator=torch.Generator().manual_seed(0)) * 1000
    return chosen.to(getattr(torch, dtype)).to(device)


def sort(device, shape, dtype):
    x = values(device, shape, dtype)
    return lambda: torch.sort(x)


def topk(device, shape, dtype):
    x = values(device, shape, dtype)
    return lambda: torch.topk(x, min(8, shape[-1]))


def unique(device, shape, dtype):
    x = values(device, shape, dtype)
    return lambda: torch.unique(x)


def nonzero(device, shape, dtype):
    mask = values(device, shape, dtype) > 500
    return lambda: mask.nonzero()


def multinomial(device, sizes):
    rows, choices, draws, replacement = sizes
    weights = values(device, (rows, choices), "float32")
    return lambda: torch.multinomial(weights, draws, replacement=bool(replacement))


def index_put(device, sizes):
    rows, width, number = sizes
    shape = (width,) if width > 1 else ()
    target = torch.zeros(rows, *shape, device=device)
    places = torch.arange(number).remainder(rows).to(device)
    added = torch.ones(number, *shape, device=device)
    return lambda: target.index_put_((places,), added, accumulate=True)


def embedding_dense_backward(device, sizes):
    rows, width, number = sizes
    places = torch.arange(number).remainder(rows).to(device)
    gradient = torch.ones(number, width, device=device)
    of = torch.ops.aten.embedding_dense_backward
    return lambda: of(gradient, places, rows, -1, False)


def embedding_bag_backward(device, sizes):
    number, rows, bags = sizes
    weights = torch.ones(rows, 16, device=device, requires_grad=True)
    places = torch.arange(number).remainder(rows).to(device)
    starts = torch.arange(0, number, number // bags).to(device)
    out = torch.nn.functional.embedding_bag(places, weights, starts, mode="sum")
    gradient = torch.ones_like(out)
    return lambda: torch.autograd.grad(out, weights, gradient, retain_graph=True)


@pytest.mark.parametrize("kind", COUNTED)
def test_kernels_are_as_many_as_on_the_h200(accelerator, kind):
    name, *dtype = kind.split()
    counted = {}
    for sizes, _ in COUNTED[kind]:
        call = globals()[name](accelerator.device, sizes, *dtype)
        call()
        with debubble.record(accelerator) as timeline:
            call()
        counted[tuple(sizes)] = timeline.counts()["kernels"]
    assert counted == {tuple(sizes): kernels for sizes, kernels in COUNTED[kind]}
