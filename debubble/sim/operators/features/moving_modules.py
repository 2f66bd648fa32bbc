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
    """By a flag PyTorch swaps all of a module's own parameters or none, and it refuses to swap one
    that has a weak reference. The flag is set while it moves a module that is on sim before or
    after."""

    @wraps(of_pytorch)
    def _apply(self: Any, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Any:
        for child in self.children() if recurse else ():
            child._apply(fn)
        given = [parameter for parameter in self._parameters.values() if parameter is not None]
        with torch.no_grad():
            made = {id(parameter): fn(parameter) for parameter in given}
        swaps = any(isinstance(tensor, SimTensor) for tensor in (*given, *made.values()))

        def already_made(tensor: torch.Tensor) -> torch.Tensor:
            return made.pop(id(tensor)) if id(tensor) in made else fn(tensor)

        before = torch.__future__.get_swap_module_params_on_conversion()
        torch.__future__.set_swap_module_params_on_conversion(swaps or before)
        try:
            return of_pytorch(self, already_made, recurse=False)
        finally:
            torch.__future__.set_swap_module_params_on_conversion(before)

    return _apply
