"""Counts how much device memory PyTorch's operators write: a step that moves three rows need not
write a whole table."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

import torch

from debubble.contract.source_line import SourceLine, source_line
from debubble.private.torch import OpOverload, TorchDispatchMode, schema, tree_leaves

BY_INDEX = ("index_fill_", "index_copy_", "index_add_", "index_reduce_")
BY_PLACE = ("scatter_", "scatter_add_", "scatter_reduce_")


class DeviceTraffic(TorchDispatchMode):
    """A mode that counts the bytes that operators write to device memory in its block, on both
    accelerators.

    An operator writes all of its result, and an in-place operator all of its tensor, unless row
    numbers or indices tell it what to write. Custom kernels are not counted.
    """

    def __init__(self) -> None:
        super().__init__()
        self.written: list[tuple[int, SourceLine | None]] = []
        """The bytes of each operator that wrote any, and the line that called it."""

    @property
    def nbytes(self) -> int:
        return sum(nbytes for nbytes, _ in self.written)

    def largest(self) -> tuple[tuple[SourceLine, int], ...]:
        """Returns ((line, 1),) for the line that wrote the most bytes, in the form of a
        Diagnosis's `lines`; empty if no line is known."""
        by_line: dict[SourceLine, int] = {}
        for nbytes, line in self.written:
            if line is not None:
                by_line[line] = by_line.get(line, 0) + nbytes
        return ((max(by_line, key=lambda line: by_line[line]), 1),) if by_line else ()

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: tuple[type, ...],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        nbytes = _written(func, args, kwargs, result)
        if nbytes:
            self.written.append((nbytes, source_line()))
        return result


def _written(func: Any, args: Any, kwargs: Any, result: Any) -> int:
    of = schema(func)
    name = of.name.removeprefix("aten::")
    if args and isinstance(args[0], torch.Tensor) and args[0].device.type != "cpu":
        table = args[0]
        if name in BY_INDEX:
            row = table.numel() // max(table.shape[args[1]], 1) if table.dim() else 1
            return args[2].numel() * row * table.element_size()
        if name in BY_PLACE:
            return args[2].numel() * table.element_size()
        if name == "index_put_":
            return _indexed(table, args[1]) * table.element_size()
    if name.startswith("empty") or name == "new_empty":
        return 0
    changed = [
        kwargs.get(argument.name, args[place] if place < len(args) else None)
        for place, argument in enumerate(of.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    is_view = any(returned.alias_info is not None for returned in of.returns)
    tensors = changed or ([] if is_view else [result])
    return sum(tensor.nbytes for tensor in _on_device(tensors))


def _indexed(table: torch.Tensor, indices: Any) -> int:
    """Returns the number of elements of `table[indices]`; with a mask, all elements of the
    table."""
    given = [index for index in indices if index is not None]
    if any(index.dtype == torch.bool for index in given):
        return table.numel()
    rest = [size for size, index in zip(table.shape, indices, strict=False) if index is None]
    rest += table.shape[len(indices) :]
    return prod(torch.broadcast_shapes(*(index.shape for index in given))) * prod(rest)


def _on_device(values: Any) -> Iterable[torch.Tensor]:
    return (
        leaf
        for leaf in tree_leaves(values)
        if isinstance(leaf, torch.Tensor) and leaf.device.type != "cpu"
    )
