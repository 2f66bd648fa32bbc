"""`module.to("sim")`: a parameter on the CPU and one on sim are objects of two classes, and change
places. What stays on the CPU is changed in place, as PyTorch does it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from ...tensor import SimTensor


def install() -> None:
    module: Any = torch.nn.Module
    module._apply = _swapping(module._apply)


def _swapping(of_pytorch: Callable[..., Any]) -> Callable[..., Any]:
    """PyTorch asks once a module whether parameters are swapped, which it refuses of one that has
    a weak reference; so it is told so only where one lies on sim, before or after."""

    @wraps(of_pytorch)
    def _apply(self: Any, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Any:
        for child in self.children() if recurse else ():
            child._apply(fn)
        given = [parameter for parameter in self._parameters.values() if parameter is not None]
        with torch.no_grad():
            made = {id(parameter): fn(parameter) for parameter in given}
        swaps = any(isinstance(tensor, SimTensor) for tensor in (*given, *made.values()))

        def made_before(tensor: torch.Tensor) -> torch.Tensor:
            return made.pop(id(tensor)) if id(tensor) in made else fn(tensor)

        asked = torch.__future__.get_swap_module_params_on_conversion()
        torch.__future__.set_swap_module_params_on_conversion(swaps or asked)
        try:
            return of_pytorch(self, made_before, recurse=False)
        finally:
            torch.__future__.set_swap_module_params_on_conversion(asked)

    return _apply
