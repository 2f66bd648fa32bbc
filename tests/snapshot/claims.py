"""The claims that `debubble check` proves for each kata, as text; `make katas` proves them."""

from __future__ import annotations

from typing import Any

from debubble.exercises.kata_files.attempts import WrongAttempt, wrong_attempts
from debubble.exercises.kata_files.catalogue import Kata, find_catalogue

from .paths import ROOT


def claims() -> dict[str, dict[str, Any]]:
    """Returns {kata: {subject: its claims}} for all katas, as `debubble check` counts them."""
    return {f"{kata.system}/{kata.name}": claims_about(kata) for kata in find_catalogue(ROOT).katas}


def claims_about(kata: Kata) -> dict[str, Any]:
    return {
        "stub file": {"names": kata.exported_names},
        "stub": {"fails": kata.stub_fails, "seconds": kata.time_limit},
        "solution": {"fails": ()},
        **{attempt.label: claim_about(attempt) for attempt in wrong_attempts(kata)},
    }


def claim_about(attempt: WrongAttempt) -> dict[str, Any]:
    return {
        "fails": attempt.fails,
        "may fail": attempt.may_fail,
        "says": attempt.says,
        "on": attempt.only_on,
    }
