"""What sim can't show of CUDA, said in one sentence each: refused, or run in another way."""

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

    return refuse


def say_once(sentence: str) -> None:
    """Warns at the line outside this folder that called, the first time in a block of `as_cuda`."""
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
