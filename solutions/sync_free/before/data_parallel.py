"""Data parallelism: in every step each rank learns what all ranks are about to run."""

from __future__ import annotations

import torch

from debubble.accelerator import current

from ..model.ranks import Ranks


class ReadBack:
    """A copy of a device tensor on the host. The constructor waits until the copy is done."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.values = tensor.cpu()

    def read(self) -> torch.Tensor:
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
