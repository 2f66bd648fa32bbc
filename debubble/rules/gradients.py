"""The work of CUDA for gradients that are other operators there than on sim.

`effects_of_gradient` takes the arguments of an operator that CUDA has in one piece: PyTorch has no
single operator for these gradients that every device shares. `adds_into_zeros` tells of gradients
that CUDA writes in place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from ..private.torch import current_autograd_node
from .effects import COPIED_FIRST, ONE_KERNEL, Effects

HALVES = (torch.float16, torch.bfloat16)


def attention(args: tuple, kwargs: dict) -> Effects:
    """Returns the effects of the gradient of attention: in half precision one kernel before the
    main kernel and one after it. In fp32 the sums of gradient times result take one kernel more,
    and so does a mask that requires a gradient."""
    mask = args[3] if len(args) > 3 else kwargs.get("attn_mask")
    of_mask = mask is not None and mask.requires_grad
    takes_sums = args[0].dtype not in HALVES
    return Effects(kernels=3 + takes_sums + of_mask)


def rms_norm(args: tuple, kwargs: dict) -> Effects:
    """Returns the effects of the gradient of RMS norm: a kernel for the input, and one for the
    weight if there is one."""
    weight = args[2] if len(args) > 2 else kwargs.get("weight")
    return Effects(kernels=1 + (weight is not None))


def recurrent(args: tuple, kwargs: dict) -> Effects:
    return Effects(kernels=6)


def product(args: tuple, kwargs: dict) -> Effects:
    """Returns the effects of the gradient of `prod`: the host reads whether a factor is 0, and then
    kernels divide by each factor."""
    return Effects(kernels=4, reads=1, kernels_after=2)


def running_product(args: tuple, kwargs: dict) -> Effects:
    """Returns the effects of the gradient of `cumprod`: it divides as `product` does, and its other
    kernels sum from the end."""
    if args[0].numel() <= 1:
        return Effects(kernels=0)
    return Effects(kernels=3, reads=1, kernels_after=4)


GRADIENTS: dict[str, Callable[[tuple, dict], Effects]] = {
    "scaled_dot_product_attention": attention,
    "rms_norm": rms_norm,
    **dict.fromkeys(("lstm.input", "lstm.data", "gru.input", "gru.data"), recurrent),
    "prod": product,
    "prod.dim_int": product,
    "cumprod": running_product,
}


def effects_of_gradient(name: str, args: tuple, kwargs: dict) -> Effects:
    rule = GRADIENTS.get(name)
    return rule(args, kwargs) if rule is not None else Effects()


CHOOSE = {
    *("Index", "IndexSelect", "Gather", "Topk", "Sort", "Max", "Min", "Kthvalue", "Median"),
    *("Nanmedian", "Mode", "Cummax", "Cummin"),
}
"""Operators that choose elements. Their gradient is zeros, to which the gradients of the chosen
elements are added."""
IN_PLACE = {
    "index_put": "_index_put_impl_",
    "index_add": "index_add_",
    "scatter_add": "scatter_add_",
    "scatter.src": "scatter_.src",
}
"""The operators that PyTorch calls on sim for such a gradient, with those that it calls on CUDA:
sim's tensors are of a subclass, for which PyTorch writes to a copy of the zeros."""


def adds_into_zeros() -> bool:
    """Returns True while PyTorch computes the gradient of an operator in CHOOSE."""
    node = current_autograd_node()
    return node is not None and node.name().partition("Backward")[0] in CHOOSE


def copied_first(args: tuple, kwargs: dict) -> Effects:
    """Returns the effects of an operator in IN_PLACE of which CUDA has one kernel."""
    return ONE_KERNEL if adds_into_zeros() else COPIED_FIRST


def as_on_cuda(name: str, args: Sequence) -> tuple[str, Sequence]:
    """Returns the name and the arguments with which CUDA runs an operator in IN_PLACE."""
    if not adds_into_zeros():
        return name, args
    return IN_PLACE[name], (*args, True) if name == "index_put" else args
