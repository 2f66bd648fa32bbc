"""Attributes of PyTorch's that mean something else for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import BuiltinMethodType, FunctionType

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


def each_of_its_own(values: Mapping[str, object]) -> dict[str, object]:
    """The same with a function for each name, called so: PyTorch's compiler, which every optimizer
    imports, has rules by name and finds them by the function."""
    return {
        name: _called(name, value)
        if isinstance(value, (FunctionType, BuiltinMethodType))
        else value
        for name, value in values.items()
    }


def _called(name: str, function: Callable[..., object]) -> Callable[..., object]:
    def call(*args: object, **kwargs: object) -> object:
        return function(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    return call
