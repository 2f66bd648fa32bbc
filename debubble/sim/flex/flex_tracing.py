"""Traces the operators of a mask function, and refuses those that no kernel could run."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from debubble.contract.source_line import source_line
from debubble.private.torch import TorchDispatchMode, schema
from debubble.rules.composition import name_of
from debubble.rules.operators import effects_of

from ..tensor import SimTensor

GROUPS, HEADS, ROWS, COLUMNS = 2, 7, 3, 5
"""The sizes of the index tensors in a trace. They all differ, so that a wrong shape shows up."""
INDICES = ((GROUPS, 1, 1, 1), (1, HEADS, 1, 1), (GROUPS, 1, ROWS, 1), (GROUPS, 1, 1, COLUMNS))
"""The shapes of b, h, q and kv in a trace. They broadcast to one element for each pair of
positions."""
LOOK_UP = {"index.Tensor", "gather", "take", "index_select", "embedding"}
"""Operators that look up elements of a table by index; in a trace the index is 0, because every
table has an element 0."""
ASKS = {
    getattr(torch.Tensor, name)
    for name in ("__bool__", "__int__", "__float__", "__index__", "item", "tolist", "numpy")
}
"""Methods that turn a tensor into a Python value, which no kernel can do; a mask function must not
call them."""


class Slot(int):
    """The number by which a trace refers to a tensor."""


class Asking(TorchFunctionMode):
    """A mode that raises RuntimeError if a mask function turns a tensor into a Python value."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in ASKS:
            raise _wait(func.__name__)
        return func(*args, **(kwargs or {}))


class Tracing(TorchDispatchMode):
    """A mode that records the operators of a mask function, on tensors with shapes but no values: a
    trace can't depend on values, and they may not be computed yet. Operators run on stand-ins full
    of ones to find result shapes."""

    def __init__(self) -> None:
        super().__init__()
        self.captured: dict[int, torch.Tensor] = {}
        self.reads: list[SimTensor] = []
        self.steps: list[tuple[Any, tuple, dict[str, Any], int]] = []
        self._slots: dict[int, Slot] = {}
        self._kept: list[torch.Tensor] = []
        self._stand_ins: list[torch.Tensor] = []
        self._by_position: set[Slot] = set()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Returns False, or PyTorch would spend a second importing its compiler before the first
        operator."""
        return False

    @property
    def num_slots(self) -> int:
        return len(self._stand_ins)

    def index(self, shape: tuple[int, ...]) -> SimTensor:
        index = SimTensor(torch.ones(shape, dtype=torch.int32, device="cpu"))
        self._by_position.add(self._note(index, index.data_on_cpu))
        return index

    def slot_of(self, tensor: torch.Tensor) -> Slot:
        """Returns the slot of a tensor. A tensor without a slot is from before the trace: its data
        is saved in `captured`. Raises RuntimeError if it lies in host memory and is not a
        scalar."""
        slot = self._slots.get(id(tensor))
        if slot is not None:
            return slot
        if not isinstance(tensor, SimTensor) and tensor.dim() > 0:
            raise RuntimeError(
                f"a mask function reads a tensor of shape {tuple(tensor.shape)} in host memory"
                f"{_here()}: move it to the device before"
            )
        data = tensor.data_on_cpu if isinstance(tensor, SimTensor) else tensor
        slot = self._note(tensor, torch.ones((), dtype=data.dtype, device="cpu").expand(data.shape))
        self.captured[slot] = data
        if isinstance(tensor, SimTensor):
            self.reads.append(tensor)
        return slot

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        name = name_of(func)
        _expect_no_wait(name, args, kwargs)
        if kwargs.get("device") is not None:
            kwargs |= {"device": torch.device("cpu"), "pin_memory": False}
        written = self._written(func, args, kwargs)
        slots = self._with_slots(args), {k: self._with_slots(v) for k, v in kwargs.items()}
        out = func(*self._stand_ins_for(slots[0], name), **self._stand_ins_for(slots[1], name))
        if not isinstance(out, torch.Tensor):
            raise RuntimeError(f"a mask function can't use {name}{_here()}: it gives no tensor")
        depends = self._expect_one_value_each(name, out, _flat_slots(slots))
        result = SimTensor(out) if written is None else written
        slot = self._note(result, out) if written is None else self.slot_of(written)
        if depends:
            self._by_position.add(slot)
        self.steps.append((func, *slots, slot))
        return result

    def _note(self, tensor: torch.Tensor, stand_in: torch.Tensor) -> Slot:
        slot = self._slots[id(tensor)] = Slot(len(self._stand_ins))
        self._stand_ins.append(stand_in)
        self._kept.append(tensor)  # So that no other tensor gets its identity.
        return slot

    def _with_slots(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self.slot_of(value)
        if isinstance(value, (list, tuple)):
            return type(value)([self._with_slots(item) for item in value])
        return value

    def _stand_ins_for(self, value: Any, name: str) -> Any:
        if type(value) is Slot:
            return self._stand_ins[value]
        if isinstance(value, dict):
            return {key: self._stand_ins_for(item, name) for key, item in value.items()}
        if not isinstance(value, (list, tuple)):
            return value
        found = [self._stand_ins_for(item, name) for item in value]
        if name in LOOK_UP:
            # Every table has an element 0.
            whole = (isinstance(t, torch.Tensor) and not t.is_floating_point() for t in found)
            first = 1 if isinstance(value, tuple) else 0
            found = [
                torch.zeros_like(t) if is_whole and place >= first else t
                for place, (t, is_whole) in enumerate(zip(found, whole, strict=True))
            ]
        return type(value)(found)

    def _written(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> torch.Tensor | None:
        """Returns the tensor that an operator writes to, or None. Raises RuntimeError if the mask
        function didn't make that tensor itself."""
        for position, name in _written_arguments(func):
            tensor = args[position] if position < len(args) else kwargs[name]
            slot = self.slot_of(tensor)
            if slot in self.captured or slot < len(INDICES):
                raise RuntimeError(
                    f"a mask function writes to a tensor with {name_of(func)}{_here()}: it may "
                    "only read what was there before"
                )
            return tensor
        return None

    def _expect_one_value_each(self, name: str, out: torch.Tensor, slots: list[Slot]) -> bool:
        """Returns True if a result depends on positions. Raises RuntimeError if it then has more or
        less than one element for each of them, or if the mask function makes a tensor of its
        own."""
        if name.startswith("new_"):
            slots = []  # It takes only the dtype and device of that tensor.
        shapes = [self._stand_ins[s].shape for s in slots if s in self._by_position]
        if not slots and out.dim() > 0:
            raise RuntimeError(
                f"a mask function makes a tensor of shape {tuple(out.shape)} of its own with "
                f"{name}{_here()}: make it before, and read it"
            )
        if shapes and out.shape != _broadcast(shapes):
            raise RuntimeError(
                f"a mask function gets from {name} more or less than one value for each pair of "
                f"positions{_here()}: index a table in one step, as in table[row, column]"
            )
        return bool(shapes)


def _expect_no_wait(name: str, args: tuple, kwargs: dict[str, Any]) -> None:
    if name in ("_to_copy", "copy_"):
        target = kwargs.get("device")
        waits = target is not None and torch.device(target).type == "cpu"
    else:
        effects = effects_of(name, args, kwargs)
        waits = bool(effects.reads or effects.syncs)
    if waits:
        raise _wait(name)


def _wait(name: str) -> RuntimeError:
    return RuntimeError(
        f"a mask function makes the host wait for the device with {name}{_here()}: it runs inside "
        "a kernel, where there are tensors and no Python numbers"
    )


@functools.cache
def _written_arguments(func: Any) -> list[tuple[int, str]]:
    return [
        (position, argument.name)
        for position, argument in enumerate(schema(func).arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]


def _broadcast(shapes: list[torch.Size]) -> tuple[int, ...]:
    """Returns the shape to which `shapes` broadcast. Doesn't check that they fit, because an
    operator has already broadcast them."""
    most = max(map(len, shapes))
    return tuple(map(max, zip(*((1,) * (most - len(s)) + tuple(s) for s in shapes), strict=True)))


def _flat_slots(value: Any) -> list[Slot]:
    if type(value) is Slot:
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [slot for item in value for slot in _flat_slots(item)]
    return []


def _here() -> str:
    line = source_line()
    return f" at {line}" if line else ""
