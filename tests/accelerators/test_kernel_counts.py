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


def index_put_unchecked(device, sizes):
    return added_at(device, sizes[:1], *sizes[1:], unchecked=True)


def index_put_two(device, sizes):
    return added_at(device, sizes[:2], *sizes[2:], unchecked=False)


def index_put_two_unchecked(device, sizes):
    return added_at(device, sizes[:2], *sizes[2:], unchecked=True)


def added_at(device, shape, width, number, unchecked):
    """Adds `number` rows at places of a target, as the gradient of an index does if `unchecked`."""
    row = (width,) if width > 1 else ()
    target = torch.zeros(*shape, *row, device=device)
    places = [torch.arange(number).remainder(size).to(device) for size in shape]
    added = torch.ones(number, *row, device=device)
    put = torch.ops.aten._index_put_impl_
    return lambda: put(target, places, added, True, unchecked)


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


@pytest.mark.parametrize(
    "choose, kernels",
    [
        (lambda x, i: x[i], 6),
        (lambda x, i: x[i, i], 9),
        (lambda x, i: x.index_select(0, i), 1),
        (lambda x, i: x.gather(0, i[:, None]), 1),
        (lambda x, i: x.topk(2).values, 1),
    ],
    ids=["rows", "elements", "index_select", "gather", "topk"],
)
def test_the_gradient_of_a_choice_is_added_in_place_and_without_a_check(
    accelerator, choose, kernels
):
    x = torch.ones(16, 16, device=accelerator.device, requires_grad=True)
    index = torch.arange(8).to(accelerator.device)
    out = choose(x, index)
    gradient = torch.ones_like(out)
    with debubble.record(accelerator) as timeline:
        torch.autograd.grad(out, x, gradient)
    zeros = 1
    assert timeline.counts()["kernels"] == zeros + kernels
    assert timeline.counts()["d2d"] == 0


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
