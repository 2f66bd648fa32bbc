"""Data parallelism: in every step each rank learns what all ranks are about to run."""

from __future__ import annotations

from solutions.common.read_back import ReadBack

from ..model.ranks import Ranks


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
    with group.stream:
        state = group.own_column(orig_num_tokens, padded_num_tokens, should_ubatch, cudagraph_mode)
        group.all_reduce(state)
        return ReadBack(state)
