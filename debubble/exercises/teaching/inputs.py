"""The inputs of code under test: many calls at once, the same objects with other contents, parts of
larger tensors. Also checks that the code left its inputs as they were."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

import torch

import debubble
from debubble.accelerator import Accelerator
from debubble.private.torch import tree_leaves, version
from debubble.timeline.timeline import Timeline

from .claims import expect_equal
from .diagnosis import Diagnosis

Result = TypeVar("Result")
Arguments = TypeVar("Arguments", bound=tuple[object, ...])
IN_A_ROW = 100
"""The number of calls that are queued before the first copy begins: more than the buffers of any
code that takes buffers in turn without checking whether they are free."""
BUSY_MS = 40.0
"""Milliseconds of the kernel before the calls on a GPU. A real host queues a few dozen to some
hundred uploads in this time."""
MODELLED_BUSY_MS = 10.0
IN_PLACE = (
    "`+=`, methods whose name ends with `_`, and assignments to an index change the object that "
    "they are given. Make a new one instead."
)
BESIDE = 77
"""The value of all elements of the larger tensor of `part_of` outside the part."""


def in_a_row(
    accelerator: Accelerator, call: Callable[[int], Result], calls: int = IN_A_ROW
) -> tuple[list[Result], Timeline]:
    """Makes the calls `call(0)`, `call(1)`, …, all queued after a kernel that still runs, and
    returns their results and the timeline.

    Each result is used as a model would use it: every device tensor in it is copied right after its
    call, on the stream of the call.
    """
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(MODELLED_BUSY_MS if accelerator.modelled else BUSY_MS)
        results = [_used(call(number)) for number in range(calls)]
    return results, timeline


def same_objects(steps: Iterable[Arguments]) -> Iterator[Arguments]:
    """Yields the arguments of each step, in the same objects for all steps: dicts, lists and
    tensors of the first step are changed in place, as an engine does. Other values are passed as
    they are."""
    kept: Arguments | None = None
    for arguments in steps:
        if kept is None:
            kept = arguments = _own(arguments)
        else:
            kept = cast(Arguments, tuple(map(_overwritten, kept, arguments)))
        yield kept


@contextmanager
def left_as_they_were(**inputs: object) -> Iterator[None]:
    """Checks that the block leaves its `inputs`, tensors, dicts and lists, as they were. Raises
    KataFailure after the block if one has changed, even temporarily. Waits for the device, so
    record inside of the block, and not around it."""
    before = {name: _own(value) for name, value in inputs.items()}
    writes = {name: _writes_to(value) for name, value in inputs.items()}
    yield
    for name, value in inputs.items():
        theirs = f"`{name}`, which belongs to the caller,"
        expect_equal(value, before[name], value=f"{theirs} after the call", likely=IN_PLACE)
        if _writes_to(value) != writes[name]:
            raise Diagnosis(
                expected=f"{theirs} to be left alone",
                did="wrote to it, and then what was there before",
                why=f"{IN_PLACE} Other code that reads it meanwhile finds wrong values.",
            ).failure()


def part_of(values: torch.Tensor, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns `values` [n, m] as a part of a larger tensor on the device, not contiguous, and the
    larger tensor [n, m + 3], whose other elements are BESIDE."""
    rows, columns = values.shape
    whole = torch.full((rows, columns + 3), BESIDE, dtype=values.dtype, device=device)
    part = whole[:, 1 : columns + 1]
    part.copy_(values)
    return part, whole


def _writes_to(value: object) -> list[int]:
    """Returns for each tensor in `value` how many times PyTorch has written to it."""
    return [version(leaf) for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def used(value: object) -> object:
    """Returns a copy of a result, as a model would read it: each device tensor is copied on the
    current stream, host tensors stay as they are."""
    return _used(value)


def _used(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value if value.device.type == "cpu" else value.clone()
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_used, value))
    if isinstance(value, list | tuple):
        return type(value)(map(_used, value))
    if isinstance(value, dict):
        return {key: _used(item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value) if field.init]
        return replace(value, **{name: _used(getattr(value, name)) for name in names})
    return value


def _own(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, dict):
        return {key: _own(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_own, value))
    return copy.deepcopy(value)


def _overwritten(kept: Any, new: Any) -> Any:
    """Returns `kept` with the contents of `new` if it can be changed in place, else `new`."""
    if isinstance(kept, torch.Tensor) and isinstance(new, torch.Tensor):
        return kept.copy_(new)
    if isinstance(kept, dict) and isinstance(new, Mapping):
        kept.clear()
        kept.update(_own(dict(new)))
        return kept
    if isinstance(kept, list) and isinstance(new, Sequence):
        kept[:] = _own(list(new))
        return kept
    return new
