"""flash-linear-attention, the peer that our forward is compared with: used if installed, never
required."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

import torch

NAME = "flash-linear-attention"
PACKAGES = (NAME, "fla-core")
"""Names of the two packages that may bring the peer."""


def missing_peer() -> str | None:
    """Returns one sentence that says why the peer can't be used, or None if it can."""
    if find_spec("fla") is None:
        return f"{NAME} is not here, so only our forward is measured: pip install {NAME}"
    try:
        peer_forward()
    except ImportError as error:
        return f"{NAME} can't be imported, so only our forward is measured: {error}"
    return None


def peer_forward() -> Callable[..., tuple[torch.Tensor, torch.Tensor | None]]:
    """Returns the peer's `chunk_gated_delta_rule`, which takes states [N, H, K, V] and starts of
    int64. Raises ImportError if the peer can't be imported."""
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule

    return chunk_gated_delta_rule


def peer_version() -> str:
    """Returns the version of the peer's installed package; "unknown" for a checkout on the path."""
    for package in PACKAGES:
        try:
            return version(package)
        except PackageNotFoundError:
            continue
    return "unknown"
