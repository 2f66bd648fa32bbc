"""Three functions that leave the GPU no bubble; before.py has them as one first writes them.

Read once and not for each number; upload from pinned memory and don't wait; let copies run on a
stream of their own, beside the kernels.
"""

from collections.abc import Callable

import torch

from debubble.accelerator import current


def mean_loss(losses: list[torch.Tensor]) -> float:
    """The mean of `losses`, one 0-dim float32 tensor on the device each."""
    return torch.stack(losses).mean().item()


def upload_tokens(token_ids: list[int]) -> torch.Tensor:
    """[len(token_ids)] int64 on the device."""
    accelerator = current()
    staging = torch.tensor(token_ids, dtype=torch.int64, pin_memory=accelerator.pin_memory)
    # Safe to drop at once: PyTorch keeps freshly pinned memory until its copies are done.
    return staging.to(accelerator.device, non_blocking=True)


def run_batches(
    batches: list[torch.Tensor], compute: Callable[[torch.Tensor], torch.Tensor]
) -> list[torch.Tensor]:
    """`compute` of each batch, on the device. `batches` lie in pinned host memory."""
    accelerator = current()
    computing, copying = accelerator.current_stream(), accelerator.stream()
    arrivals, outputs = [], []
    for batch in batches:
        with copying:
            arrivals.append(batch.to(accelerator.device, non_blocking=True))
        # An event keeps the kernels behind the data that they read.
        computing.wait_event(copying.record_event())
        outputs.append(compute(arrivals[-1]))
    # The arrivals' memory is the copying stream's to use again, once they are gone.
    copying.wait_stream(computing)
    return outputs
