"""`flex_attention` without a compiler, on sim: runs step by step, as PyTorch does on CUDA if the
call isn't compiled. (`Accelerator.flex_attention` is the compiled call.)"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from debubble.private.torch import (
    flex,
    flex_backward,
    flex_dense,
    flex_dense_backward,
    flex_runs_step_by_step,
    validate_flex_device,
)

from ...tensor import SimTensor


def install() -> None:
    if validate_flex_device and flex_runs_step_by_step:
        of_pytorch, as_the_user_says = validate_flex_device.value, flex_runs_step_by_step.value
        validate_flex_device.value = partial(_validate, of_pytorch, as_the_user_says)
        # The step-by-step implementations for all devices serve this class of tensors too.
        flex.py_impl(SimTensor)(flex_dense)
        flex_backward.py_impl(SimTensor)(flex_dense_backward)


def _validate(of_pytorch: Any, as_the_user_says: bool, query: Any, *others: torch.Tensor) -> None:
    """Replaces the device check with which each `flex_attention` begins: turns PyTorch's compiler,
    which doesn't know sim, off if `query` is on sim, else runs PyTorch's own check."""
    on_sim = isinstance(query, SimTensor)
    flex_runs_step_by_step.value = on_sim or as_the_user_says
    if not on_sim:
        of_pytorch(query, *others)
