"""Three functions that leave the GPU no bubble; before.py has them as most people write them first.

Read once instead of once for each number. Upload from pinned memory without waiting. Let copies run
on a stream of their own, beside the kernels.
"""

from collections.abc import Callable

import torch

from debubble.accelerator import current


def mean_loss(losses: list[torch.Tensor]) -> float:
    """Returns the mean of `losses`, at least one, which are 0-dim float32 tensors on the device."""
    return torch.stack(losses).mean().item()


def upload_tokens(token_ids: list[int]) -> torch.Tensor:
    """Returns [len(token_ids)] int64 on the device."""
    accelerator = current()
    staging = torch.tensor(token_ids, dtype=torch.int64, pin_memory=accelerator.pin_memory)
    # Safe to drop at once: PyTorch keeps freshly pinned memory until its copies are done.
    return staging.to(accelerator.device, non_blocking=True)


def run_batches(
    batches: list[torch.Tensor], compute: Callable[[torch.Tensor], torch.Tensor]
) -> list[torch.Tensor]:
    """Returns `compute` of each batch, on the device. `batches` lie in pinned host memory."""
    accelerator = current()
    computing, copying = accelerator.current_stream(), accelerator.stream()
    arrivals, outputs = [], []
    for batch in batches:
        with copying:
            arrivals.append(batch.to(accelerator.device, non_blocking=True))
        # The event makes the kernels wait for the data that they read.
        computing.wait_event(copying.record_event())
        outputs.append(compute(arrivals[-1]))
    # Once the arrivals are freed, the copying stream may use their memory again: it waits for the
    # kernels that read them.
    copying.wait_stream(computing)
    return outputs
