"""Many small arrays, one upload: laid side by side in pinned memory, cut apart on the device."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import ParamSpec, Protocol, TypeVar

import numpy as np
import torch

from debubble.accelerator import current
from solutions.common.shown import shown
from solutions.common.staging_ring import StagingRing

HostArrays = Mapping[str, np.ndarray]
"""What one site of a step needs on the device, by name, as the CPU has planned it."""
DeviceArrays = Mapping[str, torch.Tensor]
"""HostArrays after their upload: same names, shapes and dtypes, on the device."""

Name = TypeVar("Name", bound=Hashable)
State = ParamSpec("State")
Result = TypeVar("Result", covariant=True)


class Plan(Protocol[State, Result]):
    """What a site is about to do, settled on the host: a `plan_...` function makes it, and refuses
    with ValueError what can't be done, before anything is uploaded and while nothing has changed.

    Then `arrays` are uploaded, by themselves or beside those of other plans, and `apply` does the
    rest on the device. Plan[[torch.Tensor], None] is applied to one tensor, and gives nothing.
    """

    @property
    def arrays(self) -> HostArrays:
        """What `apply` needs on the device, by name. Empty where nothing has to travel."""

    def apply(self, on_device: DeviceArrays, *state: State.args, **named: State.kwargs) -> Result:
        """Queues the kernels, and waits for nothing. `on_device`: `arrays`, uploaded. `state`: the
        tensors that it reads or changes, or the device on which it makes its result."""


ALIGNMENT = 16
"""Bytes. Every array starts at a multiple of it, so that it can be seen as any dtype."""


def upload_packed(arrays: HostArrays, device: torch.device) -> DeviceArrays:
    """All arrays on `device`, by one non-blocking copy from pinned memory, or by none if there is
    nothing in them. Dtypes: those of numpy that torch has."""
    return upload_plans({"": arrays}, device)[""]


def upload_plans(
    plans: Mapping[str, HostArrays], device: torch.device, ring: StagingRing | None = None
) -> dict[str, DeviceArrays]:
    """The arrays of several plans on `device`, by the plan's name, by one non-blocking copy.

    The pinned memory is fresh, or a slot of `ring`, a StagingRing of uint8. ValueError if the
    plans take more bytes than such a slot has. Dtypes: those of numpy that torch has.
    """
    _check_arrays(plans)
    places, total = _layout(plans)
    if ring is None:
        staged = torch.empty(total, dtype=torch.uint8, pin_memory=current().pin_memory)
        _fill(staged.numpy(), plans, places)
        packed = staged.to(device, non_blocking=True)
    else:
        capacity = ring.slots[0].numel()
        if total > capacity:
            raise ValueError(f"{total} bytes to upload: a slot of this ring holds {capacity}")
        staged = torch.empty(total, dtype=torch.uint8)
        _fill(staged.numpy(), plans, places)
        packed = torch.empty(total, dtype=torch.uint8, device=device)
        ring.upload(staged, packed)
    return {
        plan: {name: _view(packed, places[plan, name], array) for name, array in arrays.items()}
        for plan, arrays in plans.items()
    }


def _check_arrays(plans: Mapping[str, HostArrays]) -> None:
    for plan, arrays in plans.items():
        if not isinstance(arrays, Mapping):
            raise TypeError(f"plan {plan!r} is {shown(arrays)}: give a dict of numpy arrays")
        for name, array in arrays.items():
            if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
                raise TypeError(f"{name!r} is {shown(array)}: give a numpy array of numbers")


def _layout(plans: Mapping[str, HostArrays]) -> tuple[dict[tuple[str, str], slice], int]:
    """By plan and name, the bytes of an array; and how many all of them take."""
    sizes = {
        (plan, name): array.nbytes
        for plan, arrays in plans.items()
        for name, array in arrays.items()
    }
    return places_of(sizes, ALIGNMENT)


def _fill(
    packed: np.ndarray, plans: Mapping[str, HostArrays], places: dict[tuple[str, str], slice]
) -> None:
    for (plan, name), place in places.items():
        packed[place] = np.ascontiguousarray(plans[plan][name]).reshape(-1).view(np.uint8)


def _view(packed: torch.Tensor, place: slice, array: np.ndarray) -> torch.Tensor:
    dtype = torch.from_numpy(np.empty(0, array.dtype)).dtype
    return packed[place].view(dtype).view(array.shape)


def places_of(sizes: Mapping[Name, int], alignment: int) -> tuple[dict[Name, slice], int]:
    """Where in the buffer each array lies, by its name, and how large the buffer has to be. Arrays
    keep their order, and each starts at a multiple of `alignment`; all in the unit of `sizes`."""
    places, end = {}, 0
    for name, size in sizes.items():
        places[name] = slice(end, end + size)
        end += -(-size // alignment) * alignment
    return places, end
