"""A file of known findings, so that a check fails only for new ones."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from .annotations import identity
from .findings import Finding

MOST_BYTES = 64 * 2**20
PLACE = ("file", "function", "code")


class NoBaseline(ValueError):
    """The error for a file without findings. Its message is one sentence that says why."""


class Baseline:
    """The findings of a file that `debubble syncs --json` wrote.

    Findings are matched by what they wait for, and by the file, function and text of their lines.
    Their line numbers and how often they happen may change."""

    def __init__(self, known: Counter[tuple[str, ...]]) -> None:
        self.known = known

    @classmethod
    def read(cls, path: Path) -> Baseline:
        if not path.is_file():
            raise NoBaseline(f"{path} can't be read: there is no such file.")
        try:
            if path.stat().st_size > MOST_BYTES:
                raise NoBaseline(f"{path} is too large: {MOST_BYTES >> 20} MiB are read at most.")
            content = path.read_bytes()
        except OSError as error:
            raise NoBaseline(f"{path} can't be read: {error.strerror or error}.") from None
        try:
            findings = json.loads(content)["findings"]
            return cls(Counter(_identity(finding) for finding in findings))
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
            raise NoBaseline(
                f"{path} holds no findings: write it with `debubble syncs --json {path} SCRIPT`."
            ) from None

    def new(self, findings: Sequence[Finding]) -> list[Finding]:
        """Returns the findings that the baseline doesn't have, or has fewer of."""
        left, new = self.known.copy(), []
        for finding in findings:
            left[identity(finding)] -= 1
            if left[identity(finding)] < 0:
                new.append(finding)
        return new


def _identity(row: dict) -> tuple[str, ...]:
    places = (row, row["inside"][-1] if row["inside"] else row)
    kind = row["kind"]
    if not isinstance(kind, str):
        raise TypeError
    return (kind, *(str(place[name] or "") for place in places for name in PLACE))
