"""One process among the ranks that step side by side, over torch.distributed."""

from __future__ import annotations

import torch
import torch.distributed as dist
import triton
import triton.language as tl

from debubble.accelerator import current, launch

from ..sites.data_parallel import _run_ar
from .ranks import Row

INT32_MAX = 2**31 - 1
STEPS_IN_FLIGHT = 2


@triton.jit(
    # Whatever the numbers of a step are, it is the same compiled kernel.
    do_not_specialize=[
        "rank",
        "size",
        "original_tokens",
        "padded_tokens",
        "should_ubatch",
        "cudagraph_mode",
    ],
)
def own_column_kernel(
    state,  # [4, size] int32, contiguous
    rank,
    size,
    original_tokens,
    padded_tokens,
    should_ubatch,
    cudagraph_mode,
    COLUMNS: tl.constexpr,  # a power of two, at least `size`
):
    """One program writes all of `state`: this rank's column, and zeros in all others."""
    row = tl.arange(0, 4)[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    tokens = tl.where(row == 0, original_tokens, padded_tokens)
    own = tl.where(row < 2, tokens, tl.where(row == 2, should_ubatch, cudagraph_mode))
    tl.store(state + row * size + column, tl.where(column == rank, own, 0), mask=column < size)


class DataParallelGroup:
    """All ranks as this one sees them: what `_run_ar` needs in each step, made once at the start by
    all ranks together.

    `process_group` is torch's: NCCL on GPUs, after torch.cuda.set_device, and gloo on sim. It
    should serve nothing else: the collectives of one group run in turn, and behind those of the
    model an exchange would wait as long as on the model's stream. None means a single rank.
    ValueError if `size`, or the limit `max_num_tokens`, is not the same on all ranks: every rank
    raises it, with the same words.
    """

    def __init__(
        self,
        process_group: dist.ProcessGroup | None,
        size: int,
        max_num_tokens: int = INT32_MAX,
    ) -> None:
        check_that_ranks_agree(
            process_group,
            {"rows": len(Row), "data parallel size": size, "max_num_tokens": max_num_tokens},
        )
        ranks = 1 if process_group is None else dist.get_world_size(process_group)
        if size != ranks:
            raise ValueError(
                f"data parallel size {size}, and {ranks} ranks in the process group: they must be "
                "the same number"
            )
        self.process_group = process_group
        self.rank = 0 if process_group is None else dist.get_rank(process_group)
        self.size = size
        self.max_num_tokens = min(max_num_tokens, INT32_MAX)
        self.device = current().device
        self.stream = current().stream()
        # What only a first time costs: a compiler, connections, pinned memory for each step.
        for pending in [_run_ar(False, 0, 0, 0, self) for _ in range(STEPS_IN_FLIGHT)]:
            pending.read()

    @classmethod
    def alone(cls, max_num_tokens: int = INT32_MAX) -> DataParallelGroup:
        """A single rank: no process group, and nothing to sum over."""
        return cls(None, 1, max_num_tokens)

    def own_column(
        self, original_tokens: int, padded_tokens: int, should_ubatch: bool, cudagraph_mode: int
    ) -> torch.Tensor:
        """[4, size] int32 on the device: this rank's column, and zeros. One kernel.

        The numbers are the kernel's arguments, so there is nothing to upload. ValueError, before
        anything is launched, for what no rank can run; the others then wait for this one until
        their process group gives up.
        """
        check_column(original_tokens, padded_tokens, cudagraph_mode, self.max_num_tokens)
        # Memory of the current stream's, and used on no other one: it may be dropped at any time.
        state = torch.empty(len(Row), self.size, dtype=torch.int32, device=self.device)
        launch(
            own_column_kernel,
            (1,),
            state,
            self.rank,
            self.size,
            int(original_tokens),
            int(padded_tokens),
            int(should_ubatch),
            int(cudagraph_mode),
            COLUMNS=triton.next_power_of_2(self.size),
            num_warps=1,
        )
        return state

    def all_reduce(self, state: torch.Tensor) -> None:
        """Sums `state` over all ranks, in place, on the current stream."""
        if self.process_group is not None:
            launch(sum_over_ranks, None, state, self.process_group)


def sum_over_ranks(state: torch.Tensor, process_group: dist.ProcessGroup) -> None:
    """Sums `state` over all ranks, in place. It is launched as a kernel, so that sim can hand its
    data on the CPU to gloo."""
    dist.all_reduce(state, group=process_group)


def check_column(
    original_tokens: int, padded_tokens: int, cudagraph_mode: int, max_num_tokens: int
) -> None:
    """ValueError for numbers that no rank can run."""
    if original_tokens < 0:
        raise ValueError(f"{original_tokens} tokens: a rank that has nothing to run has 0")
    if padded_tokens < original_tokens:
        raise ValueError(
            f"{padded_tokens} padded tokens for {original_tokens}: padding adds tokens, or none"
        )
    if padded_tokens > max_num_tokens:
        raise ValueError(
            f"{padded_tokens} padded tokens: the ranks were started for at most {max_num_tokens}"
        )
    if not 0 <= cudagraph_mode <= INT32_MAX:
        raise ValueError(f"graph mode {cudagraph_mode}: it must be at least 0, and an int32")


def check_that_ranks_agree(
    process_group: dist.ProcessGroup | None, settings: dict[str, int]
) -> None:
    """ValueError on every rank if their `settings` differ. They are exchanged as Python objects:
    tensors of two sizes would hang the ranks."""
    if process_group is None:
        return
    of_ranks: list[dict[str, int]] = [{}] * dist.get_world_size(process_group)
    dist.all_gather_object(of_ranks, settings, group=process_group)
    for name in settings:
        values = [of_rank.get(name) for of_rank in of_ranks]
        if len(set(values)) > 1:
            raise ValueError(
                f"the ranks disagree on their {name}: {values}, rank 0 first; start all of them "
                "with the same"
            )
