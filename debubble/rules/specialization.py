"""The keys under which Triton stores compiled kernels: which arguments make it compile again.

Triton compiles a kernel for the type of each argument, and specialises it for some values: an
integer that is 1, an integer that is a multiple of 16, memory at a multiple of 16 bytes, None, and
each value of a `tl.constexpr`. The key is made of these, so it is known without compiling.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch

from ..contract.compiles import Key
from ..contract.packages.triton_mode import unwrapped

OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "launch_cooperative_grid")
"""The keyword arguments that the compiler reads, and that a kernel need not take."""


class Parameter(NamedTuple):
    """A parameter of a kernel: what Triton looks at in its argument."""

    name: str
    is_constant: bool
    values: bool
    """True if an integer's value counts: 1, and multiples of 16."""
    alignment: bool
    """True if it counts whether an integer or an address is a multiple of 16."""
    default: object


def key_of(
    kernel: object,
    args: Sequence[object],
    meta: Mapping[str, object],
    address_of: Callable[[torch.Tensor], int],
) -> Key:
    """Returns the key of a launch of a Triton kernel. `address_of` returns the address of a
    tensor's first element on the device."""
    inside = unwrapped(kernel)
    parameters = parameters_of(inside)
    given = dict(zip([one.name for one in parameters], args, strict=False)) | dict(meta)
    parts = [
        (one.name, _special(given.get(one.name, one.default), one, address_of))
        for one in parameters
    ]
    taken = {one.name for one in parameters}
    options = [(name, repr(given[name])) for name in OPTIONS if name in given and name not in taken]
    return tuple(parts + options)


def parameters_of(kernel: object) -> tuple[Parameter, ...]:
    """Returns the parameters of a Triton kernel, compiled or interpreted, in their order."""
    options = getattr(kernel, "kwargs", None) or vars(kernel)
    unspecialised = options.get("do_not_specialize") or ()
    unaligned = options.get("do_not_specialize_on_alignment") or ()
    return _parameters(function_of(kernel), (*unspecialised,), (*unaligned,))


@lru_cache(maxsize=1024)
def _parameters(
    function: Callable[..., object],
    unspecialised: tuple[str | int, ...],
    unaligned: tuple[str | int, ...],
) -> tuple[Parameter, ...]:
    found = inspect.signature(function).parameters
    return tuple(
        Parameter(
            name,
            "constexpr" in str(one.annotation),
            not {name, number} & {*unspecialised},
            not {name, number} & {*unaligned},
            None if one.default is inspect.Parameter.empty else one.default,
        )
        for number, (name, one) in enumerate(found.items())
    )


def function_of(kernel: object) -> Callable[..., object]:
    """Returns the Python function of a Triton kernel."""
    function: Callable[..., object] = getattr(kernel, "fn")  # noqa: B009
    return function


def _special(value: Any, parameter: Parameter, address_of: Callable[[torch.Tensor], int]) -> str:
    """Returns what the key says about an argument."""
    if parameter.is_constant:
        return f"the constant {getattr(value, '__name__', repr(value))}"
    if value is None:
        return "None"
    if isinstance(value, bool):
        return "a bool"
    if isinstance(value, int):
        return _integer(value, parameter)
    if isinstance(value, float):
        return "a float"
    if hasattr(value, "data_ptr") and hasattr(value, "dtype"):
        dtype = str(value.dtype).removeprefix("torch.")
        if not (parameter.values and parameter.alignment):
            return f"{dtype} memory"
        is_aligned = address_of(value) % 16 == 0
        return f"{dtype} memory at {'a' if is_aligned else 'no'} multiple of 16 bytes"
    if isinstance(value, tuple):
        return f"({', '.join(_special(one, parameter, address_of) for one in value)})"
    return f"the constant {getattr(value, '__name__', repr(value))}"


def _integer(value: int, parameter: Parameter) -> str:
    if parameter.values and value == 1:
        return "1"
    fits = -(2**31) <= value < 2**31
    bits = "" if fits else f" in 64 bits{'' if value < 2**63 else ', unsigned'}"
    if not (parameter.values and parameter.alignment):
        return f"an integer{bits}"
    return f"{'a' if value % 16 == 0 else 'no'} multiple of 16{bits}"
