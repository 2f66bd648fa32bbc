"""Chooses one accelerator a process: by name, by DEBUBBLE_DEVICE, or by the machine's hardware."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, cast, overload

from ..contract.packages import triton_mode
from ..contract.packages.pytorch import need_pytorch
from ..contract.protocol import Accelerator, Result, WorkOrMaker
from . import lease

if TYPE_CHECKING:
    import torch
    from torch.nn.attention.flex_attention import BlockMask
else:
    torch = need_pytorch(__package__)

NAMES = ("auto", "cuda", "sim")
VARIABLE = "DEBUBBLE_DEVICE"

_chosen: Accelerator | None = None


def accelerator(name: str = "auto") -> Accelerator:
    """Returns the accelerator of this process, which the first call chooses: "cuda", "sim", or
    "auto".

    "auto" takes the name in DEBUBBLE_DEVICE, else a GPU if there is one, else sim; in later calls
    it means the chosen one. Raises ValueError for an unknown name; RuntimeError if CUDA is
    requested and absent, or if the process uses the other accelerator already: a Triton kernel is
    compiled or interpreted from the moment it is decorated, so one process uses one accelerator.
    """
    global _chosen
    wanted = resolve(name)
    if _chosen is None:
        _chosen = _make(wanted)
    elif _chosen.name != wanted and name != "auto":
        raise RuntimeError(
            f"this process uses {_chosen.name!r} already: start another one for {wanted!r} "
            f"(in a notebook, restart the kernel), with {VARIABLE}={wanted} set before it starts"
        )
    return _chosen


def current() -> Accelerator:
    """Returns the accelerator that this process uses, chosen automatically on the first call."""
    return _chosen or accelerator()


@overload
def launch(
    kernel: Callable[..., Result],
    grid: None,
    *args: object,
    work: WorkOrMaker = None,
    **meta: object,
) -> Result: ...
@overload
def launch(
    kernel: object,
    grid: tuple[int, ...],
    *args: object,
    work: WorkOrMaker = None,
    **meta: object,
) -> None: ...
def launch(
    kernel: object,
    grid: tuple[int, ...] | None,
    *args: object,
    work: WorkOrMaker = None,
    **meta: object,
) -> object:
    """Runs a kernel as one launch: `current().launch(...)`. Returns a plain function's result, or
    None for a Triton kernel.

    Raises RuntimeError for a Triton kernel that was decorated for the other accelerator; TypeError
    for a plain function with a grid, a Triton kernel without one, and a grid that is no tuple of 1
    to 3 integers.
    """
    accelerator = current()
    if grid is None:
        function = cast("Callable[..., object]", kernel)
        return accelerator.launch(function, None, *args, work=work, **meta)
    try:
        accelerator.launch(kernel, grid, *args, work=work, **meta)
    except Exception as error:
        triton_mode.explain(error, kernel)
        raise
    return None


def flex_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    block_mask: BlockMask,
    scale: float | None = None,
) -> torch.Tensor:
    """Computes attention of query tokens [batch, heads, T, D] to the blocks of key and value [1, kv
    heads, slots, D] that a mask names: `current().flex_attention(...)`. Returns a tensor in the
    shape of the query."""
    return current().flex_attention(query, key, value, block_mask=block_mask, scale=scale)


def resolve(name: str) -> str:
    """Returns the accelerator that `name` stands for, "cuda" or "sim": "auto" reads
    DEBUBBLE_DEVICE, and without it looks for a GPU that PyTorch and Triton can use. Raises
    ValueError for an unknown name."""
    origin = "accelerator"
    if name == "auto":
        name, origin = os.environ.get(VARIABLE) or "auto", VARIABLE
    if name not in NAMES:
        near = difflib.get_close_matches(str(name), NAMES, n=1)
        hint = f", did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{origin} {name!r} is unknown: choose one of {', '.join(NAMES)}{hint}")
    if name != "auto":
        return name
    return "cuda" if torch.cuda.is_available() and triton_mode.is_there() else "sim"


def prepare_triton() -> None:
    """Makes Triton interpret kernels if this process is on sim, or would choose sim now."""
    # A wrong DEBUBBLE_DEVICE raises where an accelerator is chosen, not in every import.
    with suppress(ValueError):
        if (_chosen.name if _chosen else resolve("auto")) == "sim":
            triton_mode.interpret_triton()


def _make(name: str) -> Accelerator:
    if name == "sim":
        from ..sim.accelerator import SimAccelerator

        triton_mode.interpret_triton()
        triton_mode.interpret_what_was_made()
        return SimAccelerator()
    if not torch.cuda.is_available():
        raise RuntimeError(
            "CUDA was asked for, and PyTorch finds no GPU here: use accelerator('sim'), or check "
            "the driver with nvidia-smi"
        )
    if not triton_mode.is_there():
        raise RuntimeError(triton_mode.missing_triton("the accelerator 'cuda'"))
    lease.wait_for_turn()
    triton_mode.compile_triton()
    from ..cuda.accelerator import CudaAccelerator

    return CudaAccelerator()
