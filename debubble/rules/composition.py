"""Finds operators that only call other operators, so that the rules apply to those."""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import partial

import torch

from ..private.torch import OpOverload, dispatch_has_kernel_for_dispatch_key, op_dk, schema
from .operators import TABLE

COMPOSITE_KEYS = (
    torch.DispatchKey.CompositeExplicitAutograd,
    torch.DispatchKey.CompositeExplicitAutogradNonFunctional,
)
COPIES = {"copy_", "_to_copy"}
"""Operators that PyTorch composes of other operators, but that have rules of their own in
`debubble.rules.copies`."""


@functools.cache
def parts_of(func: OpOverload) -> Callable[..., object] | None:
    """Returns a function that calls the other operators in place of `func`. Returns None if `func`
    has a rule, computes, copies or is a view."""
    name = name_of(func)
    if name in TABLE or name in COPIES or name.startswith("_foreach_"):
        return None
    if has_kernel(func, torch.DispatchKey.CompositeImplicitAutograd):
        return func.decompose
    if is_view(func) or has_kernel(func, torch.DispatchKey.CPU):
        return None
    key = next((key for key in COMPOSITE_KEYS if has_kernel(func, key)), None)
    return partial(op_dk(func), key) if key is not None else None


def is_view(func: OpOverload) -> bool:
    """Returns True if an operator returns a view of the same memory, and launches nothing."""
    if name_of(func) in VIEWS_BY_NAME:
        return True
    returns = schema(func).returns
    return bool(returns) and all(
        returned.alias_info is not None and not returned.alias_info.is_write for returned in returns
    )


VIEWS_BY_NAME = {"_unsafe_view", "lift_fresh", "_reshape_alias", "detach", "alias"}
"""Views whose schema doesn't say so."""


def has_kernel(func: OpOverload, key: torch.DispatchKey) -> bool:
    return dispatch_has_kernel_for_dispatch_key(func.name(), key.name)


def name_of(func: OpOverload) -> str:
    """Returns `add.Tensor` for aten::add.Tensor, `cumsum` for aten::cumsum."""
    return func.name().removeprefix("aten::")
