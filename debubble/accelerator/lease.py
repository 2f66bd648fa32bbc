"""Queues several people for one shared GPU, so that one of them at a time uses it: first come,
first served.

DEBUBBLE_GPU_QUEUE names a folder that all of them may write to, with the sticky bit. If it is set,
a process that requests CUDA waits for its turn, says how many are before it, and has the GPU until
it ends, however it ends: both files that it holds are locks of the operating system's kernel, which
releases them when the last process that has them open is gone. Processes that it starts use its
turn.

The order of the tickets alone does not decide whose turn it is: the first process in line must also
get the one lock on `holder`, so that two never have the GPU at once.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path

FOLDER = "DEBUBBLE_GPU_QUEUE"
TURN = "DEBUBBLE_GPU_TURN"
"""The environment variable that is set for processes started by a process that has the GPU."""
NAME = "DEBUBBLE_LEARNER"
TICKET = re.compile(r"(?P<came>[0-9]{20})-(?P<who>.+)-[0-9]+")
"""Matches the file name of a ticket: the nanosecond at which its owner came, the owner, and the
process. Everybody can write into the folder, so a file with another name is ignored."""
LOOK_SECONDS = 0.2
SAY_SECONDS = 60.0

_turn: Turn | None = None


@dataclass
class Turn:
    """The ticket and the open files that a process holds while it waits and while it has the
    GPU."""

    ticket: Path
    files: list[int]

    def end(self) -> None:
        for file in self.files:
            os.close(file)
        self.files.clear()
        self.ticket.unlink(missing_ok=True)


@dataclass(frozen=True)
class PlaceInLine:
    """A person in line; the first in line has the GPU."""

    who: str
    seconds: float
    """Seconds since they joined."""


def wait_for_turn() -> None:
    """Waits until this process may use the GPU. Returns at once if DEBUBBLE_GPU_QUEUE is not set,
    so that the GPU is not shared.

    Raises RuntimeError, with one sentence, if the folder can't be used.
    """
    global _turn
    folder = os.environ.get(FOLDER)
    if not folder or _turn is not None or os.environ.get(TURN):
        return
    try:
        _turn = take(Path(folder))
    except OSError as error:
        raise RuntimeError(
            f"the line for the GPU in {folder} can't be used ({error.strerror}): ask the person "
            f"who set up {FOLDER}, or work on sim"
        ) from None
    os.environ[TURN] = str(os.getpid())


def take(folder: Path) -> Turn:
    """Waits in the line of `folder` until this process has the GPU, and returns its Turn. Says
    meanwhile how many are before it. Ctrl-C leaves the line."""
    turn = _join(folder)
    try:
        holder = os.open(folder / "holder", os.O_RDONLY | os.O_CREAT, 0o644)
        turn.files.append(holder)
        said, at = -1, 0.0
        while True:
            before = _before(turn.ticket)
            if not before and _locks(holder):
                if said >= 0:
                    _say("It is your turn.")
                return turn
            if len(before) != said or time.monotonic() - at > SAY_SECONDS:
                said, at = len(before), time.monotonic()
                _say(_sentence(before))
            time.sleep(LOOK_SECONDS)
    except BaseException:
        turn.end()
        raise


def line(folder: Path) -> list[PlaceInLine]:
    """Returns the people in the line of `folder`, first come, first listed: the first one has the
    GPU."""
    now = time.time()
    found = []
    for path, came, who in _tickets(folder):
        if _is_live(path):
            found.append(PlaceInLine(who, max(0.0, now - came / 1e9)))
    return found


def _tickets(folder: Path) -> list[tuple[Path, int, str]]:
    """Returns (path, time, owner) for each ticket in `folder`, the oldest first. The time, at which
    its owner came, is in nanoseconds since 1970."""
    names = [(path, TICKET.fullmatch(path.name)) for path in sorted(folder.glob("[0-9]*-*"))]
    return [(path, int(name["came"]), name["who"]) for path, name in names if name]


def _join(folder: Path) -> Turn:
    """Makes a ticket and returns its turn. The ticket is locked before others see it, because an
    unlocked ticket belongs to a process that ended."""
    who = "".join(c for c in os.environ.get(NAME, "") if c.isalnum() or c in "._")[:40]
    name = f"{who or f'user {os.getuid()}'}-{os.getpid()}"
    hidden = folder / f".{name}"
    file = os.open(hidden, os.O_RDONLY | os.O_CREAT, 0o644)
    _locks(file)
    ticket = folder / f"{time.time_ns():020d}-{name}"
    hidden.rename(ticket)
    return Turn(ticket, [file])


def _before(ticket: Path) -> list[str]:
    """Returns the owners of the tickets before this one, the oldest first. Skips tickets of ended
    processes, and removes those that this user may remove."""
    live = []
    for path, _, who in _tickets(ticket.parent):
        if path.name >= ticket.name:
            break
        if _is_live(path):
            live.append(who)
        else:
            with contextlib.suppress(OSError):
                path.unlink()
    return live


def _is_live(ticket: Path) -> bool:
    try:
        file = os.open(ticket, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return not _locks(file)
    finally:
        os.close(file)


def _locks(file: int) -> bool:
    """Tries to lock an open file, without waiting. Returns True if this process has the lock now,
    False if another process has it."""
    import fcntl  # Windows has no fcntl, and GPUs aren't shared there.

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sentence(before: list[str]) -> str:
    if not before:
        return "The GPU is still in use: you are next."
    others = f"{len(before)} before you" if before[1:] else "one before you"
    return f"Waiting for the GPU: {others}, {before[0]} has it now. Ctrl-C leaves the line."


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
