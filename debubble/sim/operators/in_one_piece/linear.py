"""Runs `linear` as one matrix product, unless autograd or a mode needs to see its parts.

PyTorch composes it of that product and up to three views, and calls sim for each: a third of all
calls in a model. The device does the same work, and the host takes the same modelled time.
"""

from __future__ import annotations

from typing import Any

import torch

from debubble.private.torch import AutoDispatchBelowAutograd, forward_level

from ...tensor import SimTensor
from ..computing import Computation
from ..dispatch import Dispatcher, in_parts
from ..host_watch import modes_are_on

OPERATOR = torch.ops.aten.linear.default


def linear(
    dispatcher: Dispatcher,
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    tensors = (input, weight) if bias is None else (input, weight, bias)
    if not _are_plain(*tensors) or _are_watched(tensors):
        return OPERATOR.decompose(*tensors)
    with AutoDispatchBelowAutograd():
        return dispatcher(OPERATOR, tensors, {})


def _are_plain(input: Any, weight: Any, *biases: Any) -> bool:
    """Returns True if all are tensors on sim with shapes, strides and dtypes for which PyTorch runs
    `linear` as one product. It runs `linear` in other ways for other tensors."""
    for tensor in (input, weight, *biases):
        if type(tensor) is not SimTensor:
            return False
    dimensions = input.dim()
    if weight.dim() != 2 or dimensions < 2 or not input.numel() or not weight.numel():
        return False
    if dimensions > 2 and (not input.is_contiguous() or (biases and dimensions > 3)):
        return False
    return input.dtype.is_floating_point


def _are_watched(tensors: tuple[torch.Tensor, ...]) -> bool:
    """Returns True if a forward or backward derivative, or a mode, needs to see each operator of
    `linear`."""
    if forward_level.value >= 0 or modes_are_on():
        return True
    return torch.is_grad_enabled() and any([tensor.requires_grad for tensor in tensors])


class Linear:
    """The function that the dispatcher runs for `linear`, as one matrix product."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.device = dispatcher.device
        self.product = Computation(self.device, torch.ops.aten.mm.default)
        self.product_and_sum = Computation(self.device, torch.ops.aten.addmm.default)

    def __call__(self, args: tuple, kwargs: dict) -> torch.Tensor:
        if kwargs or not _are_plain(*args):
            return in_parts(OPERATOR.decompose, args, kwargs)
        input, weight, *biases = args
        *rows, width = input.shape
        view_us = self.device.cost.op_us
        self.device.host_works(view_us)
        flat, across = input.data_on_cpu, weight.data_on_cpu.t()
        if len(rows) > 1:
            self.device.host_works(view_us)
            flat = flat.view(-1, width)
        of = (*[bias.data_on_cpu for bias in biases], flat, across)
        way = self.product_and_sum if biases else self.product
        out = way.compute(way.effects(of, {}), of, {}, [*biases, input, weight])
        if len(rows) > 1:
            self.device.host_works(view_us)
            out = out.view(*rows, -1)
        return self.device.made(SimTensor(out))
