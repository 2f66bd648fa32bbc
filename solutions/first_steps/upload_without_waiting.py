"""Pinned staging, and a copy that the host does not wait for."""

import torch

from debubble.accelerator import current


def upload_tokens(token_ids: list[int]) -> torch.Tensor:
    """[len(token_ids)] int64 on the device."""
    accelerator = current()
    staging = torch.tensor(token_ids, dtype=torch.int64, pin_memory=accelerator.pin_memory)
    # Safe to drop at once: PyTorch keeps freshly pinned memory until its copies are done.
    return staging.to(accelerator.device, non_blocking=True)
