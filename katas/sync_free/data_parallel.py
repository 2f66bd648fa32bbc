"""What the other ranks run (chapter 02, hard, 40 minutes).

Data-parallel ranks step together, so each rank has to know before a step what the others will run.
Each rank writes four numbers into its own column of a tensor, `group.all_reduce` sums the tensors
of all ranks, and the host reads the sum. The code below does that. But each of the four writes is
an upload that waits, the read waits as well, and all of it is queued after the model's last step.

Upload the column at most once, from memory that is pinned if `current().pin_memory` is true. Start
the copy to the host in `_run_ar`, and wait for it only in `read`, which may be called again. Let
`read` call `event.synchronize()` if `event.query()` says that the copy is not done: a finished copy
needs no wait, and a loop of queries is a wait too. Do all of this on `group.stream`, which has no
other work.

You need to know streams, events and pinned downloads.

Edit this file, then run

    .venv/bin/pytest katas/sync_free/test_data_parallel.py

Stuck?         .venv/bin/debubble hint data_parallel
Start afresh?  .venv/bin/debubble reset data_parallel
"""

from __future__ import annotations

import torch

from debubble.accelerator import current
from katas.sync_free.given import Ranks


# Yours to edit, from here on.
class ReadBack:
    """A download of a device tensor, queued on the stream that is current at its creation."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.values = tensor.cpu()

    def read(self) -> torch.Tensor:
        """Returns the tensor on the host, which the caller may keep. Waits only if it has not
        arrived yet."""
        return self.values


def _run_ar(
    should_ubatch: bool,
    orig_num_tokens: int,
    padded_num_tokens: int,
    cudagraph_mode: int,
    group: Ranks,
) -> ReadBack:
    """Exchanges with all ranks what each of them is about to run (vLLM #41429).

    `.read()` of the result returns [4, group.size] int32 on the host, with a column for each rank.
    The rows are original tokens, padded tokens, should_ubatch as 0 or 1, and graph mode. All ranks
    must call this equally often.
    """
    state = torch.zeros(4, group.size, dtype=torch.int32, device=current().device)
    state[0, group.rank] = orig_num_tokens
    state[1, group.rank] = padded_num_tokens
    state[2, group.rank] = int(should_ubatch)
    state[3, group.rank] = cudagraph_mode
    group.all_reduce(state)
    return ReadBack(state)
