"""The types that CUDA has for an operator, where they are not those of the CPU."""

from __future__ import annotations

ONLY_ON_CUDA: dict[str, tuple[str, ...]] = {}
