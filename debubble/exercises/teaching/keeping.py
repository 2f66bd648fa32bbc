"""Detects tensors that code under test never drops: in a global, a cache, or an attribute of a
function."""

from __future__ import annotations

import functools
import gc
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable
from types import CellType, FunctionType, MethodType, ModuleType

import torch

from .diagnosis import Diagnosis, KataFailure

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


def must_not_keep(modules: Iterable[ModuleType]) -> None:
    """Raises KataFailure if the code of these modules still refers to more than MOST_KEPT
    tensors."""
    kept = sum(_tensors_of(module) for module in modules)
    if kept > MOST_KEPT:
        raise KataFailure(
            Diagnosis(
                "what belongs to a call to be dropped after it",
                f"still has {kept} tensors after the calls of this test",
                why=WHY,
            )
        )


def _tensors_of(module: ModuleType) -> int:
    """Returns how many tensors can be reached from the module's names through its own objects
    alone."""
    seen: set[int] = set()
    to_see: list[object] = [vars(module)]
    tensors = 0
    while to_see:
        found = to_see.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        if isinstance(found, torch.Tensor):
            tensors += 1
        elif _is_seen_into(found, module):
            to_see += gc.get_referents(found)
    return tensors


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
