"""Errors and warnings for parts of CUDA that sim refuses or runs in another way than a GPU."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

NO_SUCH_GPU = (
    "CUDA error: invalid device ordinal: sim is one GPU, so there is cuda:0 and no cuda:{index}"
)


HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


class NotSimulated(NotImplementedError):
    """Raised for a part of CUDA that a script uses and sim doesn't have."""


class RunsOtherwise(UserWarning):
    """The warning for something that sim runs in another way than a GPU does."""


def check_index(index: int | None) -> None:
    """Raises RuntimeError if `index` is neither None nor 0, because sim is one GPU."""
    if index not in (None, 0):
        raise RuntimeError(NO_SUCH_GPU.format(index=index))


def refusing(name: str, why: str) -> Callable[..., NoReturn]:
    """Returns a function to put in place of `name`, which raises NotSimulated and says why."""

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotSimulated(f"{name} can't be simulated: {why}.")

    return refuse


def say_once(sentence: str) -> None:
    """Warns with this sentence, but only once in an `as_cuda` block, at the innermost line outside
    this folder."""
    if sentence in _said:
        return
    _said.add(sentence)
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(HERE):
        frame, level = frame.f_back, level + 1
    warnings.warn(sentence, RunsOtherwise, stacklevel=level)


def forget_what_was_said() -> None:
    _said.clear()


_said: set[str] = set()
