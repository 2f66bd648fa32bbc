"""Upload without waiting (chapter 00, easy, 10 minutes).

The function below works. But it puts the list into ordinary (pageable) host memory, which a copy
engine cannot read by itself. So the host waits until the bytes are on their way, and they have to
wait for everything queued before them.

Put the ids into pinned host memory first, and copy them from there without waiting. Some platforms
can't pin memory: write `pin_memory=current().pin_memory`, and change nothing else for them. There
the same copy waits by itself.

You need to know pageable and pinned host memory.

Edit this file, then run

    .venv/bin/pytest katas/first_steps/test_upload_without_waiting.py

Stuck?         .venv/bin/debubble hint upload_without_waiting
Start afresh?  .venv/bin/debubble reset upload_without_waiting
"""

import torch

from debubble.accelerator import current


# Yours to edit, from here on.
def upload_tokens(token_ids: list[int]) -> torch.Tensor:
    """Returns [len(token_ids)] int64 on the device."""
    return torch.tensor(token_ids, dtype=torch.int64, device=current().device)
