"""Detects tensors that code under test never drops: in a global, a cache, or an attribute of a
function."""

from __future__ import annotations

import functools
import gc
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable
from types import CellType, FunctionType, MethodType, ModuleType

import torch

from .diagnosis import Diagnosis

MOST_KEPT = 50
"""The most tensors that code may still refer to after a test: more than any code pins to use in
turn, and fewer than a test of many calls makes."""
CONTAINERS = (dict, list, tuple, set, deque, OrderedDict, defaultdict, CellType, MethodType)
CACHE = type(functools.lru_cache(len))
WHY = (
    "An engine makes a step fifty times a second, for days. What each of them leaves behind, in a "
    "list or in a cache that knows calls by what they were given, grows until there is no memory "
    "left. Keep what all steps use, or the last few, and drop the rest."
)

MANY = (
    "If more calls leave more of them, in a list or in a cache that knows calls by what they were "
    "given, they grow until there is no memory left: an engine makes a step fifty times a second, "
    "for days. Keep what all steps use, or the last few. If they are a ring of buffers, they don't "
    "grow, but without events no number of buffers is safe: the device may be further behind. With "
    "an event for each buffer, a few are enough."
)


def must_not_keep(modules: Iterable[ModuleType]) -> None:
    """Raises KataFailure if the code of these modules still refers to more than MOST_KEPT tensors,
    unless each of them has an event: buffers with events are used again, and there are as many as
    were in flight."""
    for module in modules:
        reached = _reached(module, [])
        kept = sum(isinstance(found, torch.Tensor) for found in reached)
        events = sum(_is_event(found) for found in reached)
        if kept > MOST_KEPT and events < kept:
            raise Diagnosis(
                f"at most {MOST_KEPT} tensors to be kept from one call to the next",
                f"still has {kept} tensors after the calls of this test",
                why=MANY,
            ).failure()


def _is_event(found: object) -> bool:
    """True for an event of either accelerator."""
    return all(hasattr(type(found), name) for name in ("query", "record", "synchronize"))


def objects_kept_by(modules: Iterable[ModuleType], call: object) -> int:
    """Returns how many objects the code of these modules refers to, and the function `call` that is
    or holds an object of theirs."""
    held = [cell.cell_contents for cell in getattr(call, "__closure__", None) or ()]
    held += [call, getattr(call, "__self__", None)]
    return sum(len(_reached(module, held)) for module in modules)


def _reached(module: ModuleType, held: list[object]) -> list[object]:
    """Returns all objects that can be reached from the module's names and from `held` through the
    module's own objects alone."""
    reached: dict[int, object] = {}
    to_see: list[object] = [vars(module), *held]
    while to_see:
        found = to_see.pop()
        if id(found) in reached:
            continue
        reached[id(found)] = found
        if not isinstance(found, torch.Tensor) and _is_seen_into(found, module):
            to_see += gc.get_referents(found)
    return [*reached.values()]


def _is_seen_into(found: object, module: ModuleType) -> bool:
    if isinstance(found, FunctionType):
        return found.__globals__ is vars(module)
    if isinstance(found, type):
        return _is_own(found, module)
    own = _is_own(type(found), module)
    return own or type(found) in CONTAINERS or isinstance(found, CACHE)


def _is_own(found: type, module: ModuleType) -> bool:
    """True for a class of the module, or of the given.py that it imports."""
    return found.__module__ == module.__name__ or found.__module__.endswith(".given")
