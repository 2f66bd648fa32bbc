"""The tensors of a checkpoint that fill each weight of a model, as each family lists them."""

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
    """A function that reorders the tensor's numbers on the device, or selects some of them; None if
    they stay as they are."""


@dataclass(frozen=True)
class Weight:
    """A weight of the model: an attribute of one of its parts, which is a tensor without memory
    until it is loaded. Its sources fill it one after the other; the rest is zero."""

    owner: object
    attribute: str
    sources: tuple[Source, ...]
    shift: float = 0.0
    """Added to each stored number: some norms are stored as their difference from 1."""
    scale: float = 1.0
    """The factor by which each number is multiplied after `shift` is added."""

    @property
    def shape(self) -> torch.Size:
        return getattr(self.owner, self.attribute).shape

    @property
    def dtype(self) -> torch.dtype:
        """The dtype on the device. Numbers that are computed from the stored ones are kept in
        float32, so that they are exact."""
        if self.shift or self.scale != 1.0:
            return torch.float32
        return getattr(self.owner, self.attribute).dtype


def one(owner: object, attribute: str, name: str, shift: float = 0.0, scale: float = 1.0) -> Weight:
    """Returns a weight, the `attribute` of `owner`, that is filled by the one tensor `name` of the
    same shape."""
    shape = tuple(getattr(owner, attribute).shape)
    return Weight(owner, attribute, (Source(name, shape),), shift, scale)


def rows(owner: object, attribute: str, sources: Mapping[str, int]) -> Weight:
    """Returns a weight, the `attribute` of `owner`, whose rows are those of several tensors, one
    after the other. `sources` has the number of rows by a tensor's name."""
    columns = getattr(owner, attribute).shape[1]
    return Weight(
        owner, attribute, tuple(Source(name, (count, columns)) for name, count in sources.items())
    )


def mlp(owner: object, prefix: str, size: int) -> Iterator[Weight]:
    """Yields the two weights of a gated MLP with `size` gates. `prefix`, with which the names of
    its three tensors begin, ends with a dot."""
    gates = {f"{prefix}gate_proj.weight": size, f"{prefix}up_proj.weight": size}
    yield rows(owner, "gate_up_proj", gates)
    yield one(owner, "down_proj", f"{prefix}down_proj.weight")
