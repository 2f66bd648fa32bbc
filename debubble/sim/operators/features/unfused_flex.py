"""`flex_attention` without a compiler, on sim: runs step by step, as PyTorch does on CUDA if the
call isn't compiled. (`Accelerator.flex_attention` is the compiled call.)"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from debubble.private import torch as private

from ...tensor import SimTensor


def install() -> None:
    if private.validate_flex_device and private.flex_runs_step_by_step:
        of_pytorch, as_the_user_says = (
            private.validate_flex_device.value,
            private.flex_runs_step_by_step.value,
        )
        private.validate_flex_device.value = partial(_validate, of_pytorch, as_the_user_says)
        # The step-by-step implementations for all devices serve this class of tensors too.
        private.flex.py_impl(SimTensor)(private.flex_dense)
        private.flex_backward.py_impl(SimTensor)(private.flex_dense_backward)


def _validate(of_pytorch: Any, as_the_user_says: bool, query: Any, *others: torch.Tensor) -> None:
    """Replaces the device check with which each `flex_attention` begins: turns PyTorch's compiler,
    which doesn't know sim, off if `query` is on sim, else runs PyTorch's own check."""
    on_sim = isinstance(query, SimTensor)
    private.flex_runs_step_by_step.value = on_sim or as_the_user_says
    if not on_sim:
        of_pytorch(query, *others)
