"""Replaces attributes of PyTorch's modules and classes inside a block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import update_wrapper
from typing import Any

_MISSING = object()


@contextmanager
def replaced(owner: object, values: Mapping[str, object]) -> Iterator[None]:
    """Sets attributes of a module or class inside the block, and restores them afterwards. An
    attribute that did not exist before the block is deleted."""
    before = {name: vars(owner).get(name, _MISSING) for name in values}
    try:
        for name, value in values.items():
            setattr(owner, name, value)
        yield
    finally:
        for name, value in before.items():
            if value is not _MISSING:
                setattr(owner, name, value)
            elif name in vars(owner):
                delattr(owner, name)


def in_place_of(owner: object, values: Mapping[str, object]) -> dict[str, object]:
    """Returns `values` with each callable wrapped to look like the attribute of `owner` that it
    replaces: same name, signature, documentation, and attributes that PyTorch reads.

    A class that a function replaces stays a class, so that `isinstance` accepts it. Each callable
    gets a wrapper of its own, because PyTorch's compiler, which every optimizer imports, looks up
    its rules by function.
    """
    return {name: _like(getattr(owner, name, None), name, value) for name, value in values.items()}


def _like(original: Any, name: str, value: Any) -> Any:
    if not callable(value) or original is None:
        return value
    if isinstance(original, type):
        made = value if isinstance(value, type) else type(name, (), {"__new__": _instead_of(value)})
        for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
            setattr(made, attribute, getattr(original, attribute))
        return made

    def call(*args: Any, **kwargs: Any) -> Any:
        return value(*args, **kwargs)

    update_wrapper(call, original)
    call.__wrapped__ = getattr(original, "__wrapped__", original)  # type: ignore[attr-defined]  # as `update_wrapper` does
    return call


def _instead_of(make: Callable[..., Any]) -> Callable[..., Any]:
    return lambda cls, *args, **kwargs: make(*args, **kwargs)
