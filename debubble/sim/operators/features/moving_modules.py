"""`module.to("sim")`: swaps each parameter for a new object, because parameters on the CPU and on
sim are of two classes. A parameter that stays on the CPU is changed in place, as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from debubble.private.torch import apply_of, module_apply, own_parameters

from ...tensor import SimTensor


def install() -> None:
    module_apply.value = _swapping(module_apply.value)


def _swapping(of_pytorch: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a version of `Module._apply` that swaps a module's own parameters if one of them is
    on sim before or after.

    PyTorch's flag swaps all parameters of a module or none, and PyTorch refuses to swap a parameter
    with a weak reference. So the flag is set only while such a module is moved."""

    @wraps(of_pytorch)
    def move(self: Any, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Any:
        for child in self.children() if recurse else ():
            apply_of(child)(fn)
        given = [parameter for parameter in own_parameters(self).values() if parameter is not None]
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

    return move
