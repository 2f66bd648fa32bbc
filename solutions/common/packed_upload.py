"""Many small arrays in one upload: one after the other in pinned memory, then views of one buffer
on the device."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Concatenate, Generic, ParamSpec, Protocol, TypeVar

import numpy as np
import torch

from debubble.accelerator import current
from solutions.common.shown import shown
from solutions.common.staging_ring import StagingRing

HostArrays = Mapping[str, np.ndarray]
"""The arrays that one site uploads, by name. A site is a place in a step that needs numbers from
the host."""
DeviceArrays = Mapping[str, torch.Tensor]
"""HostArrays after their upload: same names, shapes and dtypes, on the device."""

Name = TypeVar("Name", bound=Hashable)
State = ParamSpec("State")
Result = TypeVar("Result", covariant=True)


class Plan(Protocol[State, Result]):
    """The next work of a site, a place in a step that needs numbers from the host, as the host has
    decided it. A `plan_...` function makes the plan, and raises ValueError for what can't be done,
    before anything is uploaded or changed.

    Then `arrays` are uploaded, alone or together with those of other plans, and `apply` does the
    rest on the device. Plan[[torch.Tensor], None] is applied to one tensor, and returns None.
    """

    @property
    def arrays(self) -> HostArrays:
        """The arrays that `apply` needs on the device, by name. Empty if none are needed."""

    def apply(
        self, on_device: DeviceArrays, /, *state: State.args, **named: State.kwargs
    ) -> Result:
        """Queues the kernels without a wait. `on_device` has the uploaded `arrays`. `state` has the
        tensors that it reads or changes, or the device on which it makes its result."""


@dataclass(frozen=True)
class Planned(Generic[State, Result]):
    """A Plan as a pair: the arrays to upload, and the function that applies them."""

    arrays: HostArrays
    apply: Callable[Concatenate[DeviceArrays, State], Result]


def upload_and_apply(
    plan: Planned[State, Result], device: torch.device, *state: State.args, **named: State.kwargs
) -> Result:
    """Uploads the arrays of one plan by themselves, applies the plan, and returns its result."""
    on_device = upload_packed(plan.arrays, device) if plan.arrays else {}
    return plan.apply(on_device, *state, **named)


ALIGNMENT = 16
"""Bytes. Every array starts at a multiple of it, so that it can be viewed as any dtype."""


def upload_packed(arrays: HostArrays, device: torch.device) -> DeviceArrays:
    """Returns all arrays on `device`, by one non-blocking copy from pinned memory, or without a
    copy if all are empty. Takes the dtypes of numpy that torch has. Raises TypeError for
    arrays of anything but numbers."""
    return upload_plans({"": arrays}, device)[""]


def upload_plans(
    plans: Mapping[str, HostArrays], device: torch.device, ring: StagingRing | None = None
) -> dict[str, DeviceArrays]:
    """Returns the arrays of several plans on `device`, by the plan's name, by one non-blocking
    copy.

    The pinned memory is fresh, or a slot of `ring`, a StagingRing of uint8. Takes the dtypes of
    numpy that torch has. Raises ValueError if the plans take more bytes than such a slot has, and
    TypeError for arrays of anything but numbers.
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
    for arrays in plans.values():
        for name, array in arrays.items():
            if array.dtype.kind not in "biuf":
                raise TypeError(f"{name!r} is {shown(array)}: give a numpy array of numbers")


def _layout(plans: Mapping[str, HostArrays]) -> tuple[dict[tuple[str, str], slice], int]:
    """Returns the place of each array in the buffer, a slice of bytes by (plan, name), and the size
    of the buffer in bytes."""
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
    """Returns the slice of the buffer for each array, by its name, and the size of the buffer.
    Arrays keep their order, and each starts at a multiple of `alignment`; all in the unit of
    `sizes`."""
    places, end = {}, 0
    for name, size in sizes.items():
        places[name] = slice(end, end + size)
        end += -(-size // alignment) * alignment
    return places, end
