"""PyTorch's database of operators, as a machine with a GPU sees it.

The types that CUDA has for an operator depend on the GPU. This module reads the table of a recent
GPU on any machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any

import torch

from debubble.contract.python.follow import patched


@cache
def operators() -> dict[str, Any]:
    """Returns PyTorch's database as {name: operator}. Names have the variant, such as `add` or
    `nn.functional.interpolate-bilinear`."""
    # PyTorch's own tests may set the flags of cuDNN for a block only; ours may set them.
    with patched(torch.backends, "disable_global_flags", lambda: None):
        _be_a_recent_gpu()
        from torch.testing._internal.common_methods_invocations import op_db
    return {"-".join(filter(None, (op.name, op.variant_test_name))): op for op in op_db}


def _be_a_recent_gpu() -> None:
    from torch.testing._internal import common_cuda

    for name in dir(common_cuda):
        if name.startswith("SM") and name.endswith("OrLater"):
            setattr(common_cuda, name, True)
    common_cuda._get_torch_cuda_version = lambda: (13, 0)


def types_of(op: Any) -> tuple[set[torch.dtype], set[torch.dtype]]:
    """Returns (dtypes that CUDA has for the operator, dtypes that only the CPU has)."""
    on_cuda = set(op.supported_dtypes("cuda"))
    return on_cuda, set(op.supported_dtypes("cpu")) - on_cuda


def samples(
    op: Any, dtype: torch.dtype, requires_grad: bool = False, at_least: int = 0
) -> Iterator[Any]:
    """Returns the first samples of the operator's arguments on the CPU, equal in each run: at most
    `MOST`, or `at_least` if that is more. A few operators have hundreds."""
    torch.manual_seed(0)
    count = max(MOST[0], at_least)
    return islice(op.sample_inputs("cpu", dtype, requires_grad=requires_grad), count)


MOST = [24]
"""The most samples that are taken of an operator and a dtype: a list of one number, so that a run
can set it."""


def mapped(value: Any, change: Any) -> Any:
    """Returns the nested dicts, lists and tuples `value` with change(x) in place of each tensor and
    each dtype x."""
    if isinstance(value, (torch.Tensor, torch.dtype)):
        return change(value)
    if isinstance(value, dict):
        return {key: mapped(item, change) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[mapped(item, change) for item in value])
    if isinstance(value, (list, tuple)):
        return type(value)([mapped(item, change) for item in value])
    return value


def tensors_in(value: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    mapped(value, lambda item: found.append(item) if isinstance(item, torch.Tensor) else None)
    return found
