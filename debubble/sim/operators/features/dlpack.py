"""`torch.from_dlpack` on sim. PyTorch's own would return memory that no operator can read."""

from __future__ import annotations

from functools import partial, wraps
from typing import Any

import torch
import torch.utils.dlpack

from ...tensor import SimTensor


def install() -> None:
    from_dlpack = partial(_from, torch.utils.dlpack.from_dlpack)
    torch.from_dlpack = torch.utils.dlpack.from_dlpack = wraps(torch.from_dlpack)(from_dlpack)
    to_dlpack = partial(_to, torch.utils.dlpack.to_dlpack)
    torch.to_dlpack = torch.utils.dlpack.to_dlpack = to_dlpack


def _from(of_pytorch: Any, ext_tensor: Any, **options: Any) -> torch.Tensor:
    """Replaces `torch.from_dlpack`: returns a view of the same memory for a tensor on sim, or else
    PyTorch's own result."""
    if isinstance(ext_tensor, SimTensor):
        return ext_tensor.detach()
    return of_pytorch(ext_tensor, **options)


def _to(of_pytorch: Any, tensor: Any) -> Any:
    if isinstance(tensor, SimTensor):
        raise BufferError(REFUSED)
    return of_pytorch(tensor)


REFUSED = (
    "memory of sim has no address that another library could use: hand over tensor.cpu(), or call "
    "torch.from_dlpack on the tensor itself"
)
