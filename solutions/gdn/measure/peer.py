"""The peers that our forward is compared with: used if they are installed, never required."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from types import FrameType
from typing import Protocol

import torch

HAND_OVER = "FLA_FLASH_QLA"
"""The environment variable that keeps flash-linear-attention at its own kernels if it is "0"
before `fla` is imported. Otherwise it calls FlashQLA wherever `flash-qla` is installed."""


class Rule(Protocol):
    """A peer's forward. It takes states [N, H, K, V] float32 and starts of sequences as int64, and
    returns (o, final states or None)."""

    def __call__(
        self,
        *,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        g: torch.Tensor,
        beta: torch.Tensor,
        use_qk_l2norm_in_kernel: bool,
        output_final_state: bool,
        initial_state: torch.Tensor | None,
        cu_seqlens: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor | None]: ...


@dataclass(frozen=True)
class Peer:
    """A library with a `chunk_gated_delta_rule`."""

    name: str
    module: str
    """The module that has the rule. Its first part is the package to import."""
    distributions: tuple[str, ...]
    """Names of the distributions that may bring the package, the one to install first."""
    needs: tuple[str, ...] = ()
    """Distributions that compile the peer's kernels, so that their versions matter too."""

    @property
    def package(self) -> str:
        return self.module.partition(".")[0]

    def load(self) -> Rule:
        """Imports the peer with its own kernels, unless `HAND_OVER` is set already, and returns its
        rule. Raises whatever the import raises, and AttributeError if it has no rule."""
        os.environ.setdefault(HAND_OVER, "0")
        rule: Rule = import_module(self.module).chunk_gated_delta_rule
        return rule

    def why_missing(self) -> str | None:
        """Returns one sentence that says why the peer can't be used, or None if it can."""
        if find_spec(self.package) is None:
            install = f"pip install {self.distributions[0]}"
            return f"{self.name} is not here, so it is left out: {install}"
        try:
            self.load()
        # Compilers raise errors of many types if their libraries are missing.
        except Exception as error:
            return f"{self.name} can't be imported, so it is left out: {one_line(error)}"
        return None

    def versions(self) -> dict[str, str]:
        """Returns the versions of the peer and of what it needs, by name."""
        return {self.name: version_of(*self.distributions)} | {
            needed: version_of(needed) for needed in self.needs
        }


PEERS = (
    Peer(
        "flash-linear-attention", "fla.ops.gated_delta_rule", ("flash-linear-attention", "fla-core")
    ),
    Peer("FlashQLA", "flash_qla", ("flash-qla",), ("tilelang",)),
)


class MisnamedPeer(Exception):
    """A peer's call ran in another library, so its times would have the wrong name."""


def refuse_misnamed(name: str, entered: set[str]) -> None:
    """Raises MisnamedPeer if `name` is a peer whose call entered another peer's package, or not its
    own."""
    for peer in PEERS:
        if peer.name == name and peer.package not in entered:
            raise MisnamedPeer(f"its call never entered {peer.package}")
        others = {other.package for other in PEERS} - {peer.package}
        for package in sorted(others & entered if peer.name == name else ()):
            raise MisnamedPeer(
                f"its call ran in {package}; set {HAND_OVER}=0 before fla is imported"
            )


def version_of(*distributions: str) -> str:
    """Returns the version of the first of these that is installed; "unknown" if none is, as for a
    checkout on the path."""
    for distribution in distributions:
        try:
            return version(distribution)
        except PackageNotFoundError:
            continue
    return "unknown"


def packages_entered(call: Callable[[], object]) -> set[str]:
    """Runs `call` and returns the names of the packages whose Python functions it entered, without
    the standard library's. They show which library did the work."""
    entered: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            entered.add(str(frame.f_globals.get("__name__")).partition(".")[0])

    earlier = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(earlier)
    return entered - set(sys.stdlib_module_names) - {"None", __name__.partition(".")[0]}


def one_line(error: BaseException, longest: int = 300) -> str:
    """Returns the error's type and the beginning of its message, as one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:longest]
