"""The result of one run of a dashboard, and the call that makes it in any process."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from debubble.timeline.data import TimelineData

from .settings import Settings


@dataclass(frozen=True, repr=False)
class Run:
    """The result of one run.

    figures: shown in this order, as in {"tokens/s": 812.0, "syncs": 3}: an int is a count, shown
    whole, a float has three significant digits.

    source: the origin of the figures in a short line, as in "modelled on NVIDIA H200".
    """

    timeline: TimelineData
    figures: Mapping[str, int | float]
    source: str

    def __repr__(self) -> str:
        """Returns counts only: the same on sim and on CUDA."""
        return repr(self.timeline)


class Unwanted(Exception):
    """The exception that ends a run early when its result is no longer wanted; such a run is
    neither stored nor reported."""


_is_unwanted: Callable[[], bool] = lambda: False


def watch_for_unwanted(is_unwanted: Callable[[], bool]) -> None:
    """Sets the function that `stop_if_unwanted` calls in this process."""
    global _is_unwanted
    _is_unwanted = is_unwanted


def stop_if_unwanted() -> None:
    """Raises Unwanted once other settings are wanted. A run calls it between its parts."""
    if _is_unwanted():
        raise Unwanted("other settings are wanted by now")


RunCall = Callable[[frozenset[str], dict[str, int]], Run]


@dataclass(frozen=True)
class Failure:
    """The result of a failed run: the error in a line, and its traceback if there is one."""

    error: str
    details: str = ""
    unwanted: bool = False
    """True if it was ended early, because its result was no longer wanted."""

    def told_of(self, settings: Settings) -> str:
        """Returns a sentence: `Failed with batch 8, on: graph. ValueError: it does not fit.`"""
        return f"Failed with {settings}. {self.error.removesuffix('.')}."


def perform(run: RunCall, settings: Settings) -> Run | Failure:
    """Calls `run` with the settings, and returns its result, or its error as text: not every
    exception can be sent between processes."""
    try:
        result = run(frozenset(settings.on), dict(settings.values))
        if not isinstance(result, Run):
            raise TypeError(f"it returned a {type(result).__name__}, and must return a Run")
    except Unwanted as error:
        return Failure(in_a_line(error), unwanted=True)
    except (Exception, SystemExit) as error:
        return Failure(in_a_line(error), traceback.format_exc())
    return result


def in_a_line(error: BaseException) -> str:
    """Returns a line such as `ValueError: the first line of its message`."""
    said = str(error).strip().splitlines()
    return ": ".join([type(error).__name__, *said[:1]])
