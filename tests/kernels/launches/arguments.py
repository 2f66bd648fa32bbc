"""Helpers that describe the arguments of launches."""

from __future__ import annotations


def pointers(kind: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), f"*{kind}")
