"""`debubble run [KATA]`: runs a kata's tests on the learner's code."""

from __future__ import annotations

import os
from typing import NoReturn

import typer

from debubble.exercises.kata_files.catalogue import Kata

from ..refusal import refuse, refusing
from .learner import Learner


def run(word: str | None, device: str) -> NoReturn:
    """Runs a kata's tests on the learner's code, and exits with pytest's status: 0 if the kata is
    solved. Without a word it is the kata that was edited last, or else the current one."""
    with refusing():
        learner = Learner()
        kata = (None if word else learner.edited_last) or learner.choose(word)
        learner.begin(kata)
    raise typer.Exit(status_of_tests(kata, device))


def status_of_tests(kata: Kata, device: str, *more: str) -> int:
    """Runs pytest in this process, with `more` options, which prints the learner's results, and
    returns its status."""
    try:
        import pytest
    except ImportError:
        refuse("pytest is not installed here: `make lab` installs what the katas need")
    if not kata.test_path.is_file():
        refuse(f"{kata.relative(kata.test_path)} is not there: `git checkout` brings it back")
    os.chdir(kata.root)
    test = kata.relative(kata.test_path)
    options = ["-q", "-p", "debubble.exercises.plugin", "-p", "no:cacheprovider"]
    # Katas need no other installed plugin, and some take seconds to load.
    options += ["--disable-plugin-autoload"]
    # `debubble` itself is already imported, and has no assertions for pytest to rewrite.
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    return int(pytest.main([test, *options, *more, "--device", device]))
