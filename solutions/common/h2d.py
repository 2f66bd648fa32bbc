"""One small upload without a wait: vLLM's `async_tensor_h2d`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from debubble.accelerator import current

from .shown import shown


def async_tensor_h2d(
    data: Sequence | np.ndarray | torch.Tensor,
    device: torch.device,
    dtype: torch.dtype | None = None,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns `data` on the device, by one non-blocking copy from pinned memory (vLLM #41429).

    The host converts to `dtype` first (default: that of `out`, else of `data`). With `out`, a
    contiguous device tensor of the same shape, the copy goes there, and `out` is returned. The
    caller may change or drop `data` at once. Raises ValueError if `out` isn't contiguous, is on
    another kind of device, or has another shape or dtype; if `data` is on a device or isn't
    numbers; and if a number does not fit into `dtype`, as 1.5 does not fit into integers.
    """
    dtype = dtype or (out.dtype if out is not None else None)
    values = _on_host(data, dtype)
    if out is not None and (
        not out.is_contiguous() or out.device.type != torch.device(device).type
    ):
        raise ValueError(
            f"out has strides {list(out.stride())} on {out.device}: make it contiguous, on {device}"
        )
    if out is not None and (out.shape != values.shape or out.dtype != values.dtype):
        raise ValueError(
            f"out is {out.dtype} {list(out.shape)}, and the data {values.dtype} "
            f"{list(values.shape)}: they must be the same"
        )
    # Fresh pinned memory may be dropped at once: PyTorch keeps it until its copy is done. The
    # caller could write to its own buffer before that, so the data is always copied first.
    staged = torch.empty(values.shape, dtype=values.dtype, pin_memory=current().pin_memory)
    staged.copy_(values)
    if out is None:
        return staged.to(device, non_blocking=True)
    return out.copy_(staged, non_blocking=True)


def _on_host(data: Sequence | np.ndarray | torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
    if isinstance(data, torch.Tensor) and data.device.type != "cpu":
        raise ValueError(f"the data is on {data.device} already: use it there")
    try:
        values = torch.as_tensor(data)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise ValueError(f"the data is {shown(data)}: give numbers that torch has") from None
    if dtype is None or values.dtype == dtype:
        return values
    converted = values.to(dtype)
    lost = values[~_fits(values, converted)]
    if lost.numel():
        raise ValueError(f"{lost[0].item()} does not fit into {dtype}")
    return converted


def _fits(values: torch.Tensor, converted: torch.Tensor) -> torch.Tensor:
    """Returns bool, of the shape of both: False where converting `values` to integers changed a
    number, or converting them to floats made a finite number infinite. Rounding to the nearest
    float is fine."""
    if converted.is_floating_point():
        return converted.isfinite() | ~values.isfinite()
    return converted == (values.double() if values.is_floating_point() else values)
