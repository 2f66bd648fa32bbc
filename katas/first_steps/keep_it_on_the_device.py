"""Keep it on the device (chapter 00, easy, 5 minutes).

The function below works. But it reads every loss from the device one by one. Each read makes the
host wait until the device has finished everything queued before that loss.

Let the device add the losses up, and read one number at the end.

You need to know what a host sync is, and that `.item()` is one.

Edit this file, then run

    .venv/bin/pytest katas/first_steps/test_keep_it_on_the_device.py

Stuck?         .venv/bin/debubble hint keep_it_on_the_device
Start afresh?  .venv/bin/debubble reset keep_it_on_the_device
"""

import torch


# Yours to edit, from here on.
def mean_loss(losses: list[torch.Tensor]) -> float:
    """Returns the mean of `losses`, at least one, which are 0-dim float32 tensors on the device."""
    total = 0.0
    for loss in losses:
        total += loss.item()
    return total / len(losses)
