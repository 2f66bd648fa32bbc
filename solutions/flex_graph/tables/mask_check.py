"""Refuses a logical_mask_mod that can't be part of a kernel, when its builder is made."""

from __future__ import annotations

from typing import Any

import torch

from debubble.private.torch import TorchDispatchMode, tree_leaves

from ..mask import Mask


def check_logical_mask_mod(mask: Mask, device: torch.device) -> None:
    """Raises RuntimeError if `mask.logical_mask_mod` makes the host wait or moves data between
    devices, and ValueError if it makes its own tensors, which a kernel can't, or if it doesn't
    return a bool for each query and key. A mask without this function is valid."""
    if mask.logical_mask_mod is None:
        return
    position = torch.arange(3, dtype=torch.int32, device=device)
    indices = position[:1, None], position[:1, None], position[:2, None], position[None]
    with _InAKernel(device):
        sees = mask.logical_mask_mod(*indices)
    if not isinstance(sees, torch.Tensor) or sees.dtype != torch.bool:
        kind = sees.dtype if isinstance(sees, torch.Tensor) else type(sees).__name__
        raise ValueError(f"logical_mask_mod returned {kind}: return a tensor of torch.bool")
    if not _broadcasts_to(sees.shape, torch.Size([2, 3])):
        raise ValueError(
            f"logical_mask_mod returned {list(sees.shape)} for 2 queries and 3 keys: return one "
            "bool for each query and key, by elementwise operations and look-ups"
        )


class _InAKernel(TorchDispatchMode):
    """A dispatch mode that raises for operators that no kernel can run: FlexAttention makes the
    mask's function a part of its kernel."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.device = device

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Returns False, since otherwise PyTorch would import its compiler, for a second or more,
        before the first operator."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if _needs_values(func, args):
            raise RuntimeError(
                f"logical_mask_mod makes the host wait ({func}): it can be captured only if it "
                "reads no values on the host, so use torch.where, & and | instead"
            )
        result = func(*args, **(kwargs or {}))
        for tensor in _tensors(result):
            if tensor.device.type != self.device.type:
                raise RuntimeError(
                    f"logical_mask_mod moves data to {tensor.device} ({func}): keep what it looks "
                    f"up on {self.device}"
                )
            if _makes_memory(func, args, tensor):
                raise ValueError(
                    f"logical_mask_mod makes a tensor of {list(tensor.shape)} ({func}): make it "
                    "once, outside, and look values up by position"
                )
        return result


def _needs_values(func: Any, args: Any) -> bool:
    """True if the host would have to wait to learn the operator's result or its shape."""
    if func is torch.ops.aten.index.Tensor:
        return any(index.dtype in (torch.bool, torch.uint8) for index in _tensors(args[1]))
    return (
        torch.Tag.data_dependent_output in func.tags or torch.Tag.dynamic_output_shape in func.tags
    )


def _makes_memory(func: Any, args: Any, result: torch.Tensor) -> bool:
    """True if the operator makes a tensor from numbers of the host, or from no other tensor; a
    single number is allowed."""
    name = func.overloadpacket.__name__
    if name.startswith("lift_"):
        return True
    return result.dim() > 0 and (name.startswith("new_") or not _tensors(args))


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _broadcasts_to(shape: torch.Size, whole: torch.Size) -> bool:
    try:
        return torch.broadcast_shapes(shape, whole) == whole
    except RuntimeError:
        return False
