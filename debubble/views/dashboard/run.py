"""What one run of a dashboard gives, and the call that gives it in whichever process."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from debubble.timeline.data import TimelineData

from .settings import Settings


@dataclass(frozen=True, repr=False)
class Run:
    """figures: shown in this order, as in {"tokens/s": 812.0, "syncs": 3}: an int is a count, shown
    whole, a float has three significant digits.

    source: what they are, in a short line, as in "modelled on NVIDIA H200".
    """

    timeline: TimelineData
    figures: Mapping[str, int | float]
    source: str

    def __repr__(self) -> str:
        """Counts only: the same on sim and on CUDA."""
        return repr(self.timeline)


class Unwanted(Exception):
    """A run that nobody waits for any more: it ends early, and is neither kept nor told of."""


_is_unwanted: Callable[[], bool] = lambda: False


def watch_for_unwanted(is_unwanted: Callable[[], bool]) -> None:
    """What `stop_if_unwanted` asks in this process from now on."""
    global _is_unwanted
    _is_unwanted = is_unwanted


def stop_if_unwanted() -> None:
    """For a run to call between its parts: raises Unwanted once other settings are wanted."""
    if _is_unwanted():
        raise Unwanted("other settings are wanted by now")


RunCall = Callable[[frozenset[str], dict[str, int]], Run]


@dataclass(frozen=True)
class Failure:
    """Instead of a run: the error in a line, and its traceback where there is one."""

    error: str
    details: str = ""
    unwanted: bool = False
    """It was ended early, since nobody waited for it."""

    def told_of(self, settings: Settings) -> str:
        """`Failed with batch 8, on: graph. ValueError: it does not fit.`"""
        return f"Failed with {settings}. {self.error.removesuffix('.')}."


def perform(run: RunCall, settings: Settings) -> Run | Failure:
    """Errors come back in words: not every exception can be sent from one process to another."""
    try:
        result = run(frozenset(settings.on), dict(settings.values))
        if not isinstance(result, Run):
            raise TypeError(f"it gave a {type(result).__name__}, and has to give a Run")
    except Unwanted as error:
        return Failure(in_a_line(error), unwanted=True)
    except (Exception, SystemExit) as error:
        return Failure(in_a_line(error), traceback.format_exc())
    return result


def in_a_line(error: BaseException) -> str:
    """`ValueError: the first line of what it says`"""
    said = str(error).strip().splitlines()
    return ": ".join([type(error).__name__, *said[:1]])
