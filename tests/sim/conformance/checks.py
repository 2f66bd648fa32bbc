"""The checks of an operator on sim: forward, backward, out=, in place, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from .database import mapped, samples, tensors_in

WIDER = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.complex32: torch.complex64,
    torch.uint16: torch.int64,
    torch.uint32: torch.int64,
    torch.uint64: torch.int64,
    torch.bool: torch.uint8,
}
"""{type: wider type}: if the CPU lacks an operator for a type that CUDA has, the expected result is
computed in the wider type."""
ROUNDED = {torch.float16: 5e-3, torch.bfloat16: 4e-2, torch.complex32: 1e-2}
"""The largest relative error of half types, whose results depend on the order of summation."""
WITHOUT_VALUES = (
    *("empty", "empty_permuted", "empty_like", "empty_strided"),
    *("new_empty", "new_empty_strided"),
)
"""Operators that return uninitialised memory."""

DRAWN_BY_TYPE = ("nn.functional.rrelu",)
"""Operators whose random numbers differ by dtype, so that a wider type gives no expected result."""
HAVE_CPU_TENSORS = ("tensor_split",)
"""Operators that have arguments on the CPU on every device."""
SAMPLES_OF_OTHER_TYPES = ("torch._scaled_mm", "torch._scaled_mm_v2")
"""Operators whose samples don't depend on the requested type."""


class Wrong(Exception):
    """An error of a check: sim's result differs from the CPU's."""


class Accepted(Exception):
    """An error of a check: sim gave results for a type that CUDA refuses."""


Call = Callable[[Any, tuple, dict], Any]


def on_sim(value: Any) -> Any:
    def move(tensor: Any) -> Any:
        if not isinstance(tensor, torch.Tensor):
            return tensor
        moved = tensor.detach().to("sim")
        return moved.requires_grad_(tensor.requires_grad)

    return mapped(value, move)


def wider(value: Any) -> Any:
    def widen(item: Any) -> Any:
        if isinstance(item, torch.dtype):
            return WIDER.get(item, item)
        as_leaf = item.detach().to(WIDER.get(item.dtype, item.dtype))
        return as_leaf.requires_grad_(item.requires_grad)

    return mapped(value, widen)


def copied(value: Any) -> Any:
    return mapped(value, lambda item: item.clone() if isinstance(item, torch.Tensor) else item)


def refused_or(call: Callable[[], Any]) -> Any:
    """Returns the call's result, or the error that it raises, with the same random numbers each
    time."""
    torch.manual_seed(1)
    try:
        return call()
    except Exception as error:
        return error


def expect_same(name: str, got: Any, expected: Any, *, was_widened: bool = False) -> None:
    found, wanted = tensors_in(got), tensors_in(expected)
    if len(found) != len(wanted):
        raise Wrong(f"{len(found)} tensors instead of {len(wanted)}")
    for a, b in zip(found, wanted, strict=True):
        if a.shape != b.shape:
            raise Wrong(f"shape {tuple(a.shape)} instead of {tuple(b.shape)}")
        if a.dtype != b.dtype and not was_widened:
            raise Wrong(f"{a.dtype} instead of {b.dtype}")
        is_drawn = was_widened and name in DRAWN_BY_TYPE
        if name in WITHOUT_VALUES or is_drawn or a.is_meta:
            continue
        _expect_close(a.detach().cpu(), b.detach())
    if not found and got != expected and got == got:
        raise Wrong(f"{got!r} instead of {expected!r}")


def _expect_close(a: torch.Tensor, b: torch.Tensor) -> None:
    near = max(ROUNDED.get(a.dtype, 0.0), ROUNDED.get(b.dtype, 0.0))
    if near:
        narrow = a.dtype
        a, b = a.to(_calculable(a)), b.to(narrow).to(_calculable(a))
    largest = b[b.isfinite()].abs().max().item() if near and b.isfinite().any() else 1.0
    tolerance = {"rtol": near, "atol": near * max(1.0, largest)} if near else {}
    try:
        torch.testing.assert_close(a, b.to(a.dtype), equal_nan=True, **tolerance)
    except AssertionError as error:
        raise Wrong(str(error).replace("\n", " ")[:200]) from None


def _calculable(tensor: torch.Tensor) -> torch.dtype:
    return torch.complex64 if tensor.is_complex() else torch.float32


def reference(call: Call, sample: Any) -> tuple[Any, bool]:
    """Returns (the CPU's result or error for this sample, True if it had to be computed in wider
    types)."""
    arguments = (sample.input, sample.args, sample.kwargs)
    plain = refused_or(lambda: call(*copied(arguments)))
    if not isinstance(plain, Exception):
        return plain, False
    widened = refused_or(lambda: call(*copied(wider(arguments))))
    return (plain, False) if isinstance(widened, Exception) else (widened, True)


def compare(op: Any, call: Call, sample: Any) -> None:
    expected, was_widened = reference(call, sample)
    got = refused_or(lambda: call(*_moved(op, sample)))
    torch.accelerator.synchronize()
    if isinstance(expected, Exception):
        if not isinstance(got, Exception):
            raise Accepted(str(expected)[:150])
        return
    if isinstance(got, Exception):
        raise got
    expect_same(op.name, got, expected, was_widened=was_widened)


def _moved(op: Any, sample: Any) -> Any:
    if op.name in HAVE_CPU_TENSORS:
        return on_sim(sample.input), sample.args, sample.kwargs
    return on_sim((sample.input, sample.args, sample.kwargs))


def forward(op: Any, dtype: torch.dtype) -> None:
    for sample in samples(op, dtype):
        compare(op, lambda input, args, kwargs: op(input, *args, **kwargs), sample)


def backward(op: Any, dtype: torch.dtype) -> None:
    def gradients(input: Any, args: tuple, kwargs: dict) -> Any:
        out = sample.output_process_fn_grad(op(input, *args, **kwargs))
        results = [t for t in tensors_in(out) if t.requires_grad]
        leaves = [t for t in tensors_in((input, args, kwargs)) if t.requires_grad]
        if not results:
            return []
        random = torch.Generator().manual_seed(2)
        towards = [
            torch.randn(
                t.shape,
                generator=random,
                dtype=torch.complex64 if t.is_complex() else torch.float32,
            ).to(t.device, t.dtype)
            for t in results
        ]
        return torch.autograd.grad(results, leaves, towards, allow_unused=True)

    for sample in samples(op, dtype, requires_grad=True):
        compare(op, gradients, sample)


def out(op: Any, dtype: torch.dtype) -> None:
    """Checks that the operator writes its result to tensors of the right size that are passed as
    `out=`, and returns these tensors."""

    def into(input: Any, args: tuple, kwargs: dict) -> Any:
        expected = op(input, *args, **kwargs)
        given = [torch.zeros_like(t) for t in tensors_in(expected)]
        target = given[0] if isinstance(expected, torch.Tensor) else tuple(given)
        returned = op(input, *args, **kwargs, out=target)
        if any(a is not b for a, b in zip(tensors_in(returned), given, strict=True)):
            raise Wrong("not out= itself was returned")
        return given

    for sample in samples(op, dtype):
        compare(op, into, sample)


def in_place(op: Any, dtype: torch.dtype) -> None:
    def change(input: Any, args: tuple, kwargs: dict) -> Any:
        returned = op.get_inplace()(input, *args, **kwargs)
        if isinstance(input, torch.Tensor) and returned is not input:
            raise Wrong("not the tensor itself was returned")
        return input

    for sample in samples(op, dtype):
        if not sample.broadcasts_input:
            compare(op, change, sample)


def refusals(op: Any, dtype: torch.dtype) -> None:
    """Checks that sim refuses at least one sample of the operator for a type that only the CPU
    has."""
    results = []
    if op.name in SAMPLES_OF_OTHER_TYPES:
        return
    for sample in samples(op, dtype, at_least=8):
        input, args, kwargs = on_sim((sample.input, sample.args, sample.kwargs))
        results.append(refused_or(partial(op, input, *args, **kwargs)))
    if results and not any(isinstance(result, Exception) for result in results):
        raise Accepted("CUDA has no such type for it")


def kinds_of(op: Any, dtype: torch.dtype, on_cuda: bool) -> list[str]:
    """Returns the names of the checks that apply to the operator and dtype: only "refusals" if CUDA
    lacks the dtype."""
    if not on_cuda:
        return ["refusals"]
    kinds = ["forward"]
    if op.supports_autograd and dtype in op.supported_backward_dtypes("cuda"):
        kinds.append("backward")
    if op.supports_out:
        kinds.append("out")
    if op.get_inplace() is not None:
        kinds.append("in_place")
    return kinds


CHECKS: dict[str, Callable[[Any, torch.dtype], None]] = {
    "forward": forward,
    "backward": backward,
    "out": out,
    "in_place": in_place,
    "refusals": refusals,
}
