"""Calls with one wrong argument each: the refusal, its sentence, and its cost."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import debubble

from . import kinds

ROOT = str(Path(__file__).parents[2] / "solutions")


@dataclass(frozen=True)
class Call:
    """A public function, and a function that makes right arguments, new for each call."""

    function: Callable[..., Any]
    right: Callable[[], dict[str, Any]]
    left_out: tuple[str, ...] = ()
    """Arguments to leave out: they are parts of the process, so no wrong value of them is a user's
    mistake."""
    name: str = ""
    """The function's name; its qualified name if it is not given."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.function.__qualname__)

    @property
    def parameters(self) -> list[str]:
        """Returns the names of the function's parameters that are tried. Raises AssertionError
        unless `right` has them all."""
        names = [
            name
            for name, parameter in inspect.signature(self.function).parameters.items()
            if name not in self.left_out and parameter.kind is not parameter.VAR_KEYWORD
        ]
        missing = {*names} - self.right().keys()
        assert not missing, f"{self.name}: say what {missing} should be"
        return names


@dataclass(frozen=True)
class Outcome:
    call: str
    parameter: str
    kind: str
    problem: str
    """The fault: a poor refusal, changed memory, or a hidden wait; "" if there is none."""
    accepted: bool
    sentence: str

    @property
    def id(self) -> str:
        return f"{self.call}({self.parameter}: {self.kind})"


def outcomes_of(call: Call, accelerator: Any) -> Iterator[Outcome]:
    """Calls the function with each kind of wrong value of each argument, one at a time, and yields
    the outcomes."""
    waits = _waits(accelerator, call, {})
    for parameter in call.parameters:
        for kind in kinds.of(call.right()[parameter]):
            yield outcome_of(call, parameter, kind, accelerator, waits)


def outcome_of(
    call: Call, parameter: str, kind: str, accelerator: Any, right_waits: int
) -> Outcome:
    arguments = call.right()
    wrong = kinds.of(arguments[parameter])[kind]()
    arguments[parameter] = wrong
    before = _values(arguments)
    accelerator.synchronize()
    sentence, problem, accepted = "", "", False
    with debubble.record(accelerator) as timeline:
        try:
            call.function(**arguments)
            accepted = True
        except Exception as error:  # Any error counts: its kind is what is tested.
            sentence = f"{type(error).__name__}: {error}"
            problem = _problem(error, parameter, wrong)
    if accepted:
        waits = timeline.counts()["host_syncs"]
        if waits > right_waits:
            problem = f"{waits} hidden waits"
    elif timeline.events and not problem:
        problem = f"it was refused behind {timeline.events[0].name}"
    if not accepted and not problem:
        changed = _changed(before, arguments)
        problem = f"{changed} is changed" if changed else ""
    return Outcome(call.name, parameter, kind, problem, accepted, sentence)


def _problem(error: Exception, parameter: str, wrong: Any) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    if not isinstance(error, TypeError | ValueError):
        return f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}"
    if not place.filename.startswith(ROOT) or not (place.line or "").startswith(("raise", ")")):
        return f"not refused but stumbled over, at {Path(place.filename).name}:{place.lineno}"
    if wrong is None:
        return ""  # The sentence is about the argument that needs this one.
    words, text = parameter.replace("_", " "), str(error)
    if parameter in text or words in text or words.rstrip("s") in text or _said(wrong, text):
        return ""
    return "its sentence says neither argument nor value"


def _said(wrong: Any, text: str) -> bool:
    """Returns True if the sentence has the wrong value: for a tensor its type, shape, strides or
    device, for a collection a member or its length, for a dict a key or a value."""
    if isinstance(wrong, torch.Tensor):
        about = (wrong.dtype, list(wrong.shape), tuple(wrong.shape), wrong.device, wrong.stride())
        return any(str(each) in text for each in (*about, *wrong.shape))
    if isinstance(wrong, np.ndarray):
        wrong = wrong.tolist()
    parts: list[Any] = [wrong]
    if isinstance(wrong, dict):
        parts += [*wrong, *wrong.values()]
    if isinstance(wrong, list | tuple | set):
        parts += [*wrong, len(wrong)]
    return any(repr(part) in text for part in parts)


def _values(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns copies of the tensors and arrays among the arguments, by name: a call could change
    them."""
    copies = {}
    for name, value in arguments.items():
        if isinstance(value, torch.Tensor) and value.device.type != "meta":
            copies[name] = value.clone()
        elif isinstance(value, np.ndarray):
            copies[name] = value.copy()
    return copies


def _changed(before: Mapping[str, Any], arguments: Mapping[str, Any]) -> str:
    for name, was in before.items():
        now = arguments[name]
        if isinstance(was, np.ndarray):
            same = was.dtype == object or np.array_equal(was, now, equal_nan=was.dtype.kind == "f")
        else:
            same = torch.equal(was.cpu().nan_to_num(), now.cpu().nan_to_num())
        if not same:
            return name
    return ""


def _waits(accelerator: Any, call: Call, changes: Mapping[str, Any]) -> int:
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        call.function(**call.right() | changes)
    return timeline.counts()["host_syncs"]
