"""Attributes of PyTorch's that mean something else for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import update_wrapper
from typing import Any

_MISSING = object()


@contextmanager
def replaced(owner: object, values: Mapping[str, object]) -> Iterator[None]:
    """The attributes of a module or a class have these values in the block; those that it had not
    are gone again behind it."""
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
    """Returns `values` with a new function for each callable, which looks like the one of `owner`
    that it replaces: name, signature, documentation, and the attributes that PyTorch reads there.

    A class that a function replaces is still a class, so that `isinstance` can name it. PyTorch's
    compiler, which every optimizer imports, finds its rules by these functions, one by one.
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
