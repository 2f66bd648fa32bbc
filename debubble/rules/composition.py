"""Which operators are only a way of calling others, so that the others are what counts."""

from __future__ import annotations

import functools
from typing import Any

import torch

from .operators import TABLE

COMPOSITE_KEYS = (
    torch.DispatchKey.CompositeExplicitAutograd,
    torch.DispatchKey.CompositeExplicitAutogradNonFunctional,
)


@functools.cache
def composition_of(func: Any) -> torch.DispatchKey | None:
    """The key of an operator's composition, or None if it computes by itself."""
    if name_of(func) in TABLE or name_of(func).startswith("_foreach_") or is_view(func):
        return None
    if has_kernel(func, torch.DispatchKey.CPU) or has_kernel(func, torch.DispatchKey.CUDA):
        return None
    return next((key for key in COMPOSITE_KEYS if has_kernel(func, key)), None)


def is_view(func: Any) -> bool:
    """Whether an operator gives another look at the same memory, and launches nothing."""
    if name_of(func) in VIEWS_BY_NAME:
        return True
    returns = func._schema.returns
    return bool(returns) and all(
        returned.alias_info is not None and not returned.alias_info.is_write for returned in returns
    )


VIEWS_BY_NAME = {"_unsafe_view", "lift_fresh", "_reshape_alias", "detach", "alias"}
"""Views whose schema doesn't say so."""


def has_kernel(func: Any, key: torch.DispatchKey) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key.name)


def name_of(func: Any) -> str:
    """`add.Tensor` for aten::add.Tensor, `cumsum` for aten::cumsum."""
    return func.name().removeprefix("aten::")
