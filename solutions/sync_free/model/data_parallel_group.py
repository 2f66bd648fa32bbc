"""One process among the ranks that step side by side, over torch.distributed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
import triton
import triton.language as tl

from debubble.accelerator import current, launch
from solutions.common.host_integers import is_integer
from solutions.common.staging_ring import STEPS_IN_FLIGHT

from ..sites.data_parallel import _run_ar
from .exchanges import GRACE_S, sum_in_step, unanswered, who_is_missing
from .ranks import Sent

INT32_MAX = 2**31 - 1


@triton.jit(
    # One compiled kernel serves all values of these numbers.
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
    """Writes all of `state` [4, size], in one program: this rank's four numbers in its column, and
    zeros in all other columns."""
    row = tl.arange(0, 4)[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    tokens = tl.where(row == 0, original_tokens, padded_tokens)
    own = tl.where(row < 2, tokens, tl.where(row == 2, should_ubatch, cudagraph_mode))
    tl.store(state + row * size + column, tl.where(column == rank, own, 0), mask=column < size)


class DataParallelGroup:
    """A group of data-parallel ranks, as one of them sees it. `_run_ar` uses it in each step; all
    ranks construct it together at the start.

    `process_group` is torch's: NCCL on GPUs, after torch.cuda.set_device, and gloo on sim. Use it
    for nothing else: the collectives of one group run in turn, so after the model's collectives an
    exchange would wait as long as on the model's stream. None means a single rank.

    Raises ValueError on every rank, with the same words, if `size` or the limit `max_num_tokens` is
    not the same on all ranks.

    Exchanges are numbered, and each rank sends its number. If the numbers differ, all ranks raise,
    so no rank takes another step's numbers for its own. If a rank dies, hangs or stays away, all
    other ranks raise within `timeout_s` seconds, with its number and that of the exchange. At the
    start, where each rank compiles, they raise as soon as the process group gives up.
    """

    def __init__(
        self,
        process_group: dist.ProcessGroup | None,
        size: int,
        max_num_tokens: int = INT32_MAX,
        timeout_s: float = 300.0,
    ) -> None:
        check_timeout(timeout_s)
        self.process_group, self.timeout_s = process_group, timeout_s
        self.exchanges = 0
        """Number of exchanges that this rank has begun."""
        self._has_started = False
        self._began = time.monotonic()
        """The time at which this rank began its last exchange, by time.monotonic()."""
        self._broken = ""
        """The message that says why no further exchange is possible; empty as long as exchanges are
        possible."""
        self._grace_s = min(GRACE_S, timeout_s / 4)
        with self._all_there():
            check_that_ranks_agree(
                process_group,
                {"rows": len(Sent), "data parallel size": size, "max_num_tokens": max_num_tokens},
            )
        ranks = 1 if process_group is None else dist.get_world_size(process_group)
        if size != ranks:
            raise ValueError(
                f"data parallel size {size}, and {ranks} ranks in the process group: they must be "
                "the same number"
            )
        self.rank = 0 if process_group is None else dist.get_rank(process_group)
        self.size = size
        self.max_num_tokens = min(max_num_tokens, INT32_MAX)
        self.device = current().device
        self.stream = current().stream()
        # These exchanges pay what only a first one costs: a compiler, connections, pinned memory
        # for each step in flight.
        for pending in [_run_ar(False, 0, 0, 0, self) for _ in range(STEPS_IN_FLIGHT)]:
            pending.read()
        self._has_started = True
        if process_group is not None and not self._is_nccl:
            # NCCL's own timeout ends the process, so `answered_in_time` does this for NCCL.
            process_group.set_timeout(timedelta(seconds=timeout_s - self._grace_s))

    @classmethod
    def alone(cls, max_num_tokens: int = INT32_MAX) -> DataParallelGroup:
        """Returns the group of a single rank, which has no process group and exchanges nothing."""
        return cls(None, 1, max_num_tokens)

    def own_column(
        self, original_tokens: int, padded_tokens: int, should_ubatch: bool, cudagraph_mode: int
    ) -> torch.Tensor:
        """Returns the tensor that this rank sends, [4, size] int32 on the device: its numbers in
        its own column, zeros elsewhere. It takes one kernel and no upload, since the numbers are
        the kernel's arguments.

        Raises ValueError for numbers that no rank can run. All other ranks learn of it in this
        exchange, and raise too.
        """
        try:
            check_column(original_tokens, padded_tokens, cudagraph_mode, self.max_num_tokens)
        except (TypeError, ValueError):
            self._refuse()
            raise
        # The current stream allocates this memory and no other stream uses it, so it may be dropped
        # at any time.
        state = torch.empty(len(Sent), self.size, dtype=torch.int32, device=self.device)
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
        """Sums `state` over all ranks, in place, on the current stream. If a rank has refused, or
        is at another exchange, `state` gets marks instead of sums, for which `agreement_of` raises.
        Raises RuntimeError if a rank stays away for too long, and in each exchange after that."""
        self._exchange(state, refused=False)

    @contextmanager
    def answered_in_time(self) -> Iterator[None]:
        """Limits how long the host waits in the `with` block, where it reads the result of an
        exchange. NCCL finishes its work later, so RuntimeError is raised here too if some rank has
        not taken part within `timeout_s` seconds."""
        if not self._is_nccl:
            yield
            return
        gave_up = threading.Event()

        def give_up() -> None:
            gave_up.set()
            assert self.process_group is not None, "it is NCCL's"
            # Otherwise the kernel would wait forever, and the host with it.
            self.process_group.abort()

        timer = threading.Timer(self.timeout_s - self._grace_s, give_up)
        timer.start()
        try:
            with self._all_there():
                yield
                if gave_up.is_set():
                    raise RuntimeError("it was aborted")
        finally:
            timer.cancel()

    @property
    def _is_nccl(self) -> bool:
        return self.process_group is not None and dist.get_backend(self.process_group) == "nccl"

    def _exchange(self, state: torch.Tensor, refused: bool) -> None:
        if self.process_group is None:
            return
        if self._broken:
            raise RuntimeError(self._broken)
        # Counted first: a rank that is stopped between these two lines will be found at another
        # exchange than all other ranks.
        number, self.exchanges = self.exchanges, self.exchanges + 1
        self._began = time.monotonic()
        with self._all_there():
            # Launched as a kernel, so that sim can give its data on the CPU to gloo.
            launch(sum_in_step, None, state, self.process_group, self.rank, number, refused)

    def _refuse(self) -> None:
        if self.process_group is not None and not self._broken:
            state = torch.empty(len(Sent), self.size, dtype=torch.int32, device=self.device)
            self._exchange(state, refused=True)

    @contextmanager
    def _all_there(self) -> Iterator[None]:
        """Replaces a RuntimeError of torch.distributed in the `with` block by one that names the
        missing ranks and the exchange."""
        try:
            yield
        except RuntimeError:
            if self.process_group is None or self._broken:
                raise
            number = max(self.exchanges - 1, 0)
            # A rank that is no neighbour of the missing one notices only at the end of its own
            # timeout.
            until = max(self._began + self.timeout_s, time.monotonic() + self._grace_s)
            missing = who_is_missing(self.process_group, number, until)
            size = dist.get_world_size(self.process_group)
            timeout_s = self.timeout_s if self._has_started else None
            self._broken = unanswered(size, number, missing, timeout_s)
            raise RuntimeError(self._broken) from None


def check_timeout(timeout_s: float) -> None:
    """Raises ValueError unless `timeout_s` is a number of seconds above 0 and below 1e6."""
    is_number = isinstance(timeout_s, int | float) and not isinstance(timeout_s, bool)
    if not is_number or not 0 < timeout_s < 10**6:
        raise ValueError(f"timeout_s is {timeout_s!r}: give seconds, above 0 and below 1e6")


def check_column(
    original_tokens: int, padded_tokens: int, cudagraph_mode: int, max_num_tokens: int
) -> None:
    """Raises ValueError for numbers of tokens or a graph mode that no rank can run."""
    for name, number in (
        ("tokens", original_tokens),
        ("padded tokens", padded_tokens),
        ("graph mode", cudagraph_mode),
    ):
        if not is_integer(number):
            raise ValueError(f"{number!r} as {name}: give an integer")
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
    """Raises ValueError on every rank if their `settings` differ. The settings are exchanged as
    Python objects, since tensors of two sizes would hang the ranks."""
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
