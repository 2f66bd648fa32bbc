"""Three functions as most people write them first: correct, and full of bubbles.

The host waits for each number that it reads and for each upload from pageable memory, and no batch
is uploaded while another one is computed.
"""

from collections.abc import Callable

import torch

from debubble.accelerator import current


def mean_loss(losses: list[torch.Tensor]) -> float:
    """Returns the mean of `losses`, at least one, which are 0-dim float32 tensors on the device."""
    total = 0.0
    for loss in losses:
        total += loss.item()
    return total / len(losses)


def upload_tokens(token_ids: list[int]) -> torch.Tensor:
    """Returns [len(token_ids)] int64 on the device."""
    return torch.tensor(token_ids, dtype=torch.int64, device=current().device)


def run_batches(
    batches: list[torch.Tensor], compute: Callable[[torch.Tensor], torch.Tensor]
) -> list[torch.Tensor]:
    """Returns `compute` of each batch, on the device. `batches` lie in pinned host memory."""
    device = current().device
    outputs = []
    for batch in batches:
        outputs.append(compute(batch.to(device, non_blocking=True)))
    return outputs
