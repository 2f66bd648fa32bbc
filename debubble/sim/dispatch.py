"""Which way an ATen operator goes on sim: a view, a copy, a composition of others, or a computation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from ..rules.operators import TABLE
from .computing import Computation, on_cpu
from .copying import Copies
from .device import SimDevice
from .tensor import SimTensor

aten = torch.ops.aten
Operator = Callable[[tuple, dict], Any]

VIEWS_BY_NAME = {"_unsafe_view", "lift_fresh", "_reshape_alias", "detach", "alias"}
"""Views whose schema doesn't say so."""

COMPOSITE_KEYS = (
    torch.DispatchKey.CompositeExplicitAutograd,
    torch.DispatchKey.CompositeExplicitAutogradNonFunctional,
)


class Dispatcher:
    """Finds out once for every overload what it is, then runs it that way."""

    def __init__(self, device: SimDevice) -> None:
        self.device = device
        self.copies = Copies(device)
        self._known: dict[Any, Operator] = {
            aten.copy_.default: self.copies.copy_,
            aten._to_copy.default: self.copies.to_copy,
            aten.is_pinned.default: lambda args, kwargs: False,
        }

    def __call__(self, func: Any, args: tuple, kwargs: dict) -> Any:
        run = self._known.get(func)
        if run is None:
            run = self._known[func] = self._classify(func)
        with self.device.lock:
            return run(args, kwargs)

    def _classify(self, func: Any) -> Operator:
        name = func.name().removeprefix("aten::")
        if name in TABLE or name.startswith("_foreach_"):
            return Computation(self.device, func)
        if _has_kernel(func, torch.DispatchKey.CompositeImplicitAutograd):
            return lambda args, kwargs: func.decompose(*args, **kwargs)
        if _is_view(func):
            return partial(self._view, func)
        if not _has_kernel(func, torch.DispatchKey.CPU):
            for key in COMPOSITE_KEYS:
                if _has_kernel(func, key):
                    return lambda args, kwargs: func._op_dk(key, *args, **kwargs)
        return Computation(self.device, func)

    def _view(self, func: Any, args: tuple, kwargs: dict) -> Any:
        self.device.host_works(self.device.cost.op_us)
        out = func(*on_cpu(args, []), **kwargs)
        block = args[0].block
        if isinstance(out, torch.Tensor):
            return SimTensor(out, block)
        return [SimTensor(part, block) for part in out]


def _has_kernel(func: Any, key: torch.DispatchKey) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key.name)


def _is_view(func: Any) -> bool:
    if func.name().removeprefix("aten::") in VIEWS_BY_NAME:
        return True
    returns = func._schema.returns
    return bool(returns) and all(
        returned.alias_info is not None and not returned.alias_info.is_write for returned in returns
    )
