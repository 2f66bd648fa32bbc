"""`debubble watch [KATA]`: runs its tests whenever its file is saved.

This process has imported what a run needs, and forks for each run. So a verdict needs no start-up
time, and the code's changes to its process do not last: an endless loop ends with the next save.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import typer

from debubble.exercises.kata_files.catalogue import Kata
from debubble.exercises.running.memory import leave_memory_to_others

from ..refusal import refuse, refusing
from .answers import hint
from .learner import Learner, remark
from .run import status_of_tests

A_MOMENT = 0.05
"""Seconds between two looks at the file."""
Seen = tuple[int, int, int] | None


def watch(word: str | None, device: str) -> None:
    """Runs a kata's tests on the learner's code now and on each save, until Ctrl-C or the key
    `q`."""
    if not hasattr(os, "fork"):
        refuse("watch needs a system that can fork, such as Linux: `debubble run` does without")
    with refusing():
        learner = Learner()
        kata = learner.choose(word)
        path = learner.begin(kata)
    try:
        typer.echo("Getting ready …")
        device = _warm_up(kata, device)
        while (following := _watch_one(kata, path, device)) is not None:
            kata, path = following, Learner().begin(following)
    except KeyboardInterrupt:
        typer.echo()
    typer.echo(f"No longer watching; {path.name} is as you saved it.")


def _watch_one(kata: Kata, path: Path, device: str) -> Kata | None:
    """Runs a kata's tests now and on each save of its file. Returns the kata to go on with if the
    learner asks for the next one, or None to end."""
    while True:
        seen = _look(path)
        if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
            typer.echo("\033[H\033[2J", nl=False)
        typer.secho(f"{kata.relative(path)}", bold=True)
        passed = _run(kata, path, device, seen)
        if passed is None:
            _let_it_be_saved(path)
            continue
        keys = "Enter for the next kata" if passed else "h for a hint"
        where = f"Watching {kata.relative(path)}"
        typer.secho(f"{where}. Save it, or press {keys}, q to end.", dim=True)
        with _single_keys():
            while _look(path) == seen:
                time.sleep(A_MOMENT)
                key = _key()
                if key == "q":
                    return None
                if key == "h":
                    hint(kata.name)
                elif key == "\n" and passed:
                    return Learner().current
        _let_it_be_saved(path)


def _run(kata: Kata, path: Path, device: str, seen: Seen) -> bool | None:
    """Runs the tests in a fork. Returns True if they passed, False if they failed or Ctrl-C stopped
    them, and None if the file was saved again meanwhile, which ends the run."""
    sys.stdout.flush()
    from debubble.exercises.running.processes.forked import import_for_the_next

    told, imported = os.pipe()
    for end in (told, imported):
        os.set_blocking(end, False)  # Reads don't wait for leftover processes.
    with open(told, "rb") as told_file:
        process = os.fork()
        if process == 0:
            _in_the_child(kata, device, imported)
        os.close(imported)
        try:
            while True:
                done, status = os.waitpid(process, os.WNOHANG)
                if done:
                    break
                if _look(path) != seen:
                    _end(process)
                    return None
                time.sleep(A_MOMENT)
        except KeyboardInterrupt:
            _end(process)
            remark("\nStopped. Ctrl-C once more ends the watch.")
            return False
        import_for_the_next((told_file.read() or b"").decode().split())
    exit_code = os.waitstatus_to_exitcode(status)
    if exit_code < 0:
        name = signal.Signals(-exit_code).name
        remark(f"The run was ended by {name}: did it take more memory than there is?")
    return exit_code == 0


def _in_the_child(kata: Kata, device: str, imported: int) -> NoReturn:
    """Runs the tests in the fork, and exits without cleaning up after the code under test. On sim
    it writes the names of modules that its parent may import for the next run into the pipe
    `imported`."""
    exit_code = 1
    try:
        os.setpgid(0, 0)
        if device == "sim":
            leave_memory_to_others()
        from debubble.exercises.running.processes.forked import needed_by_any_test

        before = {*sys.modules}
        exit_code = status_of_tests(kata, device, "--stop-at-time-limit")
        if device == "sim":
            os.write(imported, "\n".join(needed_by_any_test(before)).encode())
    except BaseException as error:
        remark(f"The run could not be finished: {type(error).__name__}: {error}")
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(exit_code)


def _warm_up(kata: Kata, device: str) -> str:
    """Imports what each run needs, and returns the accelerator's name. CUDA itself starts in the
    children."""
    from debubble.exercises.running.processes.interpreter import ONE_THREAD

    os.environ.update(ONE_THREAD)  # threads are unsafe in a process that forks
    import io

    import pytest

    from debubble.accelerator.choice import resolve
    from debubble.exercises import plugin
    from debubble.exercises.running.processes.forked import keep_what_is_there, prepare

    try:
        device = resolve(device)
        prepare(device)
    except (RuntimeError, ValueError) as error:
        refuse(str(error))
    os.chdir(kata.root)
    with contextlib.redirect_stdout(io.StringIO()):
        test = kata.relative(kata.test_path)
        pytest.main([test, "--collect-only", "-q", "-p", plugin.__name__, "-p", "no:cacheprovider"])
    keep_what_is_there()
    return device


def _end(process: int) -> None:
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(process, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(process, 0)


def _look(path: Path) -> Seen:
    """Returns the file's time, size and inode, which change when it is saved; None if it is
    missing."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _let_it_be_saved(path: Path) -> None:
    """Waits until the file is there, at most half a second: an editor may remove it and put another
    in its place."""
    for _ in range(10):
        if _look(path):
            return
        time.sleep(A_MOMENT)


@contextlib.contextmanager
def _single_keys() -> Iterator[None]:
    """Lets `_key` see each key at once in the block, without Enter. Ctrl-C works as before."""
    if not _has_terminal():
        yield
        return
    import termios
    import tty

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal)
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _key() -> str | None:
    """Returns the key that was pressed in the terminal, in lower case, without waiting; None if
    there is no terminal or no input."""
    if not (_has_terminal() and select.select([sys.stdin], [], [], 0)[0]):
        return None
    return os.read(sys.stdin.fileno(), 1).decode(errors="replace").lower()


def _has_terminal() -> bool:
    return bool(sys.stdin) and sys.stdin.isatty()
