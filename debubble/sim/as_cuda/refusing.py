"""What sim can't show of CUDA, said in one sentence each: refused, or run in another way."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NoReturn

NO_SUCH_GPU = (
    "CUDA error: invalid device ordinal: sim is one GPU, so there is cuda:0 and no cuda:{index}"
)


class NotSimulated(NotImplementedError):
    """Something of CUDA's that a script asked for, and that sim has nothing to answer with."""


class RunsOtherwise(UserWarning):
    """Something that sim lets run in another way than a GPU would."""


def check_index(index: int | None) -> None:
    """RuntimeError for another GPU than the only one."""
    if index not in (None, 0):
        raise RuntimeError(NO_SUCH_GPU.format(index=index))


def refusing(name: str, why: str) -> Callable[..., NoReturn]:
    """A function in place of `name` that can only say why it does nothing."""

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotSimulated(f"{name} can't be simulated: {why}.")

    refuse.__name__ = refuse.__qualname__ = name.rpartition(".")[2]
    return refuse


def say_once(sentence: str) -> None:
    """A warning at the caller's line, the first time in a block of `as_cuda`."""
    if sentence not in _said:
        _said.add(sentence)
        warnings.warn(sentence, RunsOtherwise, stacklevel=3)


def forget_what_was_said() -> None:
    _said.clear()


_said: set[str] = set()
