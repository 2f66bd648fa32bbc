"""The five optimisations, each of which an engine can have or leave out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from itertools import product


@dataclass(frozen=True, kw_only=True)
class Optimizations:
    """The set of optimisations of an engine. Without one of them the engine runs the code from
    before it: the answers are the same, and the waits are still there."""

    pinned_h2d: bool = True
    """The images' ranges are uploaded once a step (chapter 01)."""
    sync_free: bool = True
    """Inputs travel in one upload; tokens are read one step late, after an event (chapter 02)."""
    gdn_precompute: bool = True
    """Chunk tables are planned on the host (chapter 03)."""
    flex_full_graph: bool = True
    """FlexAttention's metadata and attention are part of the step's graph (chapter 04)."""
    offload_triton: bool = True
    """A kernel copies blocks back from CPU memory where that is faster (chapter 05)."""

    def __post_init__(self) -> None:
        """Raises TypeError for a flag that is neither True nor False."""
        for name in NAMES:
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} is {getattr(self, name)!r}: give True or False")

    @classmethod
    def none(cls) -> Optimizations:
        """Returns the set without any optimisation: the engine as it was before all five."""
        return cls.only(())

    @classmethod
    def only(cls, names: Iterable[str]) -> Optimizations:
        """Returns the set with exactly these optimisations. Raises ValueError for a name that is
        not in NAMES, TypeError for a single string instead of a list of names."""
        if isinstance(names, str):
            raise TypeError(f"names is {names!r}: give a list, as [{names!r}]")
        names = frozenset(names)
        unknown = sorted(names.difference(NAMES), key=str)
        if unknown:
            raise ValueError(
                f"optimisation {unknown[0]!r} is unknown: choose from {', '.join(NAMES)}"
            )
        return cls(**{name: name in names for name in NAMES})

    @classmethod
    def combinations(cls) -> list[Optimizations]:
        """Returns all 32 sets, from none to all."""
        choices = product((False, True), repeat=len(NAMES))
        return [cls(**dict(zip(NAMES, choice, strict=True))) for choice in choices]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the optimisations that are on, in the order of NAMES."""
        return tuple(name for name in NAMES if getattr(self, name))

    def __str__(self) -> str:
        return {0: "none", len(NAMES): "all"}.get(len(self.names), "+".join(self.names))


NAMES = tuple(field.name for field in fields(Optimizations))
