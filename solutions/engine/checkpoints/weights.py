"""Which tensors of a checkpoint become which weight of a model, said by each family."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch

Rearrange = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Source:
    """A tensor of a checkpoint, and the shape that it must have."""

    name: str
    shape: tuple[int, ...]
    rearrange: Rearrange | None = None
    """What becomes of it on the device, where its numbers lie in another order there, or only some
    of them are used."""


@dataclass(frozen=True)
class Weight:
    """A weight of the model: an attribute of one of its parts, until it is loaded a tensor without
    memory. It is filled from its sources, one behind the other; behind them it is zero."""

    owner: object
    attribute: str
    sources: tuple[Source, ...]
    shift: float = 0.0
    """What is added to each number: some norms are stored as their distance from 1."""
    scale: float = 1.0
    """What each is multiplied by, behind that."""

    @property
    def shape(self) -> torch.Size:
        return getattr(self.owner, self.attribute).shape

    @property
    def dtype(self) -> torch.dtype:
        """What is computed from the stored numbers is kept in float32, so that it is exact."""
        if self.shift or self.scale != 1.0:
            return torch.float32
        return getattr(self.owner, self.attribute).dtype


def one(owner: object, attribute: str, name: str, shift: float = 0.0, scale: float = 1.0) -> Weight:
    """A weight that is a tensor as it is stored."""
    shape = tuple(getattr(owner, attribute).shape)
    return Weight(owner, attribute, (Source(name, shape),), shift, scale)


def rows(owner: object, attribute: str, sources: Mapping[str, int]) -> Weight:
    """A weight whose rows are those of several tensors: how many of each, by its name."""
    columns = getattr(owner, attribute).shape[1]
    return Weight(
        owner, attribute, tuple(Source(name, (count, columns)) for name, count in sources.items())
    )


def mlp(owner: object, prefix: str, size: int) -> Iterator[Weight]:
    """Of a gated MLP with `size` gates."""
    gates = {f"{prefix}gate_proj.weight": size, f"{prefix}up_proj.weight": size}
    yield rows(owner, "gate_up_proj", gates)
    yield one(owner, "down_proj", f"{prefix}down_proj.weight")
