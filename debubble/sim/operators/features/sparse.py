"""Sparse COO tensors on sim: PyTorch's own structure around two sim tensors, indices and values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch

from debubble.private import torch as private

aten = torch.ops.aten
CPU_KERNELS = private.DispatchKeySet(private.DispatchKey.SparseCPU)
MAKES = (
    private.sparse_coo_tensor_with_dims_and_tensors.default,
    private.sparse_coo_tensor_with_dims.default,
)
"""Operators that put indices and values together. They have dense sim tensors as arguments."""
STRUCTURE = {
    *MAKES,
    *(
        getattr(aten, name).default
        for name in (
            *("sparse_dim", "dense_dim", "_dimI", "_dimV", "_nnz", "is_coalesced", "_coalesced_"),
            *("_indices", "_values", "indices", "values", "clone", "copy_sparse_to_sparse_"),
            *("sparse_resize_", "sparse_resize_and_clear_"),
        )
    ),
    aten.empty.memory_format,
}
"""Operators whose CPU kernels only handle the structure: they call dense operators on indices and
values, which run on sim."""


class SparseTensor(torch.Tensor):
    """A sparse COO tensor whose indices and values are tensors on sim. It has a class of its own so
    that `as_cuda` can change the device that it reports."""

    __torch_function__ = private.disabled_torch_function_impl

    def detach(self) -> torch.Tensor:
        return of_class(super().detach())

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]  # PyTorch gives its argument no name
        text = private.tensor_str(self, tensor_contents=tensor_contents)
        return text.replace("SparseTensor(", "tensor(", 1).replace("\n      ", "\n")


def of_class(value: Any) -> Any:
    """Returns a sparse tensor on sim as a SparseTensor, and any other value unchanged."""
    if type(value) is torch.Tensor and is_sparse(value) and value.device.type != "cpu":
        return private.make_subclass(SparseTensor, value)
    return value


class Parts(NamedTuple):
    """The parts of a sparse tensor of shape `size`: `indices` [sparse dimensions, n] int64, and
    `values` [n, ...]."""

    indices: torch.Tensor
    values: torch.Tensor
    size: torch.Size
    coalesced: bool

    def each(self, change: Callable[[Any], torch.Tensor]) -> Parts:
        """Returns these parts with `change` of the indices and of the values."""
        return self._replace(indices=change(self.indices), values=change(self.values))

    def whole(self) -> torch.Tensor:
        """Returns the sparse tensor of these parts, without a copy."""
        return of_class(
            torch.sparse_coo_tensor(
                self.indices,
                self.values,
                self.size,
                is_coalesced=self.coalesced,
                check_invariants=False,
            )
        )


def is_sparse(value: object) -> bool:
    """Returns True for a sparse COO tensor."""
    return isinstance(value, torch.Tensor) and value.layout is torch.sparse_coo


def parts_of(value: Any) -> Any:
    """Returns an operator's results with the Parts of each sparse tensor in its place."""
    if is_sparse(value):
        return Parts(
            private.indices(value), private.values(value), value.shape, value.is_coalesced()
        )
    if isinstance(value, (list, tuple)):
        return type(value)([parts_of(item) for item in value])
    return value


def on_cpu_data(tensor: torch.Tensor, inputs: list[torch.Tensor]) -> torch.Tensor:
    """Returns a sparse tensor on sim as one over the CPU data of its indices and values. Appends
    both, as they are on sim, to `inputs`."""
    parts = parts_of(tensor)
    inputs += [parts.indices, parts.values]
    return parts.each(lambda part: part.data_on_cpu).whole()


def structure(func: Any, args: tuple, kwargs: dict) -> Any:
    """Runs an operator of STRUCTURE by its CPU kernel."""
    return of_class(func.redispatch(CPU_KERNELS, *args, **kwargs))


def replaced(target: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    """Returns the sparse tensor `target` with the indices and values of another one."""
    return structure(aten.copy_sparse_to_sparse_.default, (target, by), {})


def moved(args: tuple, kwargs: dict) -> torch.Tensor:
    """Runs `_to_copy` for a sparse tensor on sim, which may change its type and its device."""
    where = {name: kwargs[name] for name in ("device", "non_blocking") if name in kwargs}
    parts = parts_of(args[0]).each(partial(private.to_copy.default, **where))
    if kwargs.get("dtype") is not None:
        parts = parts._replace(values=parts.values.to(kwargs["dtype"]))
    return parts.whole()


def install(
    dispatcher: Callable[[Any, tuple, dict], Any],
    runs_by: Callable[[Any, Callable[[tuple, dict], Any]], None],
    library: torch.library.Library,
    fallback: torch.library.Library,
) -> None:
    """Registers the operators of sparse tensors on sim. Those without a function here are run by
    `dispatcher`; `runs_by` makes it run an operator by a function."""
    for func in MAKES:
        runs_by(func, partial(structure, func))
    for func in (private.to_sparse.default, private.to_sparse.sparse_dim):
        runs_by(func, to_sparse)
    own = {private.to_copy.default: moved} | {func: partial(structure, func) for func in STRUCTURE}
    for func, run in own.items():
        library.impl(func, _called(run), "SparsePrivateUse1")
    fallback.fallback(
        lambda func, *args, **kwargs: dispatcher(func, args, kwargs), "SparsePrivateUse1"
    )


def _called(run: Callable[[tuple, dict], Any]) -> Callable[..., Any]:
    """Returns `run` as PyTorch calls an operator: with the arguments one by one."""
    return lambda *args, **kwargs: run(args, kwargs)


def to_sparse(args: tuple, kwargs: dict) -> torch.Tensor:
    """Runs `x.to_sparse(sparse_dim)` for a dense tensor on sim. The host waits for the number of
    values, and with fewer sparse dimensions than `x` has for the number of different indices too.
    Raises NotImplementedError for another layout than COO."""
    of, *dims = args
    layout = kwargs.get("layout")
    if layout not in (None, torch.sparse_coo):
        raise NotImplementedError(f"sim has no {layout} tensors: keep this one on the CPU")
    count = dims[0] if dims else of.dim()
    places = of.nonzero()
    if count < of.dim():
        places = aten.unique_dim.default(places[:, :count], 0)[0]
    values = of[tuple(places.unbind(1))] if count else of.expand(len(places), *of.shape)
    return Parts(places.t(), values, of.shape, coalesced=True).whole()
