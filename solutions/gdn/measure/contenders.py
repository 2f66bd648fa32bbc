"""The forwards that are compared, on one batch at a time: they run in turn, and a peer that fails
is left out with a sentence."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import NoReturn, TypeVar

import torch

from debubble.accelerator import Accelerator
from solutions.measure.benchmark import no_garbage

from ..rule.recurrent import fused_recurrent_gated_delta_rule
from .batches import GatedBatch
from .forward_calls import NO_TABLES, OURS, Forward, RuleInputs, Sequences, forwards
from .forward_report import Errors, Figures, Times
from .peer import Rule, one_line, packages_entered, refuse_misnamed

WARM_UPS = 3
"""Number of calls before measuring: they compile, choose among configurations, and let the
allocator grow."""
PEER_SECONDS = 90.0
"""The longest that a peer may warm up on one batch: it may compile for each new shape."""
LOAD_MS = 5.0
"""Milliseconds for which the device is kept busy before a call: longer than the host needs to queue
it."""
OTHER_BYTES = 256 * 2**20
"""Number of bytes written before each call, several times the size of an L2 cache, so that no
inputs stay there."""

NewCalls = Callable[[], dict[str, Forward]]
"""A function that draws new inputs and returns the calls on them, by forward."""


Result = TypeVar("Result")


class Clock:
    """A clock that returns the microseconds of a call on the GPU, by an event before it and one
    after it."""

    late = False
    """True if the device reached the last call before the host had queued all of it, so that the
    call's time on the device includes the host's."""

    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator = accelerator
        self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        self.other_data = torch.empty(OTHER_BYTES, dtype=torch.uint8, device=accelerator.device)

    def as_called(self, call: Forward) -> float:
        """Returns the microseconds of `call` on an idle device, which has to wait until the host
        launches."""
        self.other_data.zero_()
        self.accelerator.synchronize()
        return self._time(call)

    def gpu_alone(self, call: Forward) -> float:
        """Returns the microseconds of `call` without the host's time: the device is busy with other
        work until the host has queued the call, unless `late` says otherwise."""
        self.other_data.zero_()
        self.accelerator.sleep(LOAD_MS)
        return self._time(call)

    def _time(self, call: Forward) -> float:
        first, last = self.events
        first.record()
        call()
        self.late = first.query()
        last.record()
        self.accelerator.synchronize()
        return first.elapsed_time(last) * 1e3


@dataclass
class Contenders:
    """Our forward and the peers that can be used, and sentences about the peers that failed."""

    accelerator: Accelerator
    peers: Mapping[str, Rule]
    deadline: float = math.inf
    """The time by which peers have to be done, in seconds of `time.monotonic`."""
    say: Callable[[str], object] = print
    sentences: list[str] = field(default_factory=list)
    """The sentences said until now: why peers were left out."""

    def note(self, sentence: str) -> None:
        self.sentences.append(sentence)
        self.say(sentence)

    def figures(self, clock: Clock, batch: GatedBatch, runs: int) -> dict[str, Figures]:
        """Returns the times of `runs` calls of each forward on this batch, its errors, and the
        packages that it ran in, by the forward's name. Peers that fail are not among them."""
        sequences = Sequences(batch.lengths, self.accelerator.device)
        where = f"{batch.sequences}, {batch.gate} gate"

        def new_inputs() -> RuleInputs:
            return RuleInputs.random(sequences, gate=batch.gate)

        checked = self.check(sequences, new_inputs(), where)
        able = {name: rule for name, rule in self.peers.items() if name in checked}
        times = self.times(clock, lambda: forwards(sequences, new_inputs(), able), runs, where)
        return {name: Figures(took, *checked[name]) for name, took in times.items()}

    def check(
        self, sequences: Sequences, inputs: RuleInputs, where: str, normalizes: bool = True
    ) -> dict[str, tuple[Errors, list[str]]]:
        """Warms up all forwards on these inputs. Returns how far their results are from those of
        the recurrence in float32, and the packages that they enter, by the forward's name. Peers
        that fail, take too long or run in another peer are not among them."""
        right = recurrence(sequences, inputs, normalizes)
        found = {}
        for name, call in forwards(sequences, inputs, self.peers, normalizes).items():
            checked = self.attempt(name, where, partial(self._check, name, call, right))
            if checked:
                found[name] = checked
        return found

    def _check(
        self, name: str, call: Forward, right: tuple[torch.Tensor, torch.Tensor]
    ) -> tuple[Errors, list[str]]:
        for _ in range(WARM_UPS):
            o, states = call()
        entered = packages_entered(call)
        refuse_misnamed(name, entered)
        assert states is not None  # Final states were asked for.
        states = states.transpose(2, 3) if name in self.peers else states
        errors = Errors(relative_error(o, right[0]), relative_error(states, right[1]))
        return errors, sorted(entered)

    def times(self, clock: Clock, new_calls: NewCalls, runs: int, where: str) -> dict[str, Times]:
        """Returns the times of `runs` calls of each forward, by the forward's name. A peer that
        fails is left out from its failure on, and has no times."""
        took: dict[str, list[tuple[float, float, bool]]] = {name: [] for name in new_calls()}
        with no_garbage():
            for run in range(runs):
                calls = {name: call for name, call in new_calls().items() if name in took}
                for name, call in in_turn(calls, run):
                    sample = self.attempt(name, where, partial(_sample, clock, call))
                    if sample:
                        took[name].append(sample)
                    else:
                        del took[name]
        return {name: Times.of(*zip(*took[name], strict=True)) for name in calls if name in took}

    def attempt(self, name: str, where: str, act: Callable[[], Result]) -> Result | None:
        """Returns the result of `act`, or None if `name` is a peer and fails or takes too long,
        which becomes a sentence. Our own forwards have no limit, and their exceptions are
        raised."""
        if name in (OURS, NO_TABLES):
            return act()
        try:
            with limited(min(PEER_SECONDS, self.deadline - time.monotonic())):
                return act()
        except Exception as error:
            self.note(f"{name} is left out at {where}: {one_line(error)}")
            return None


def _sample(clock: Clock, call: Forward) -> tuple[float, float, bool]:
    return clock.as_called(call), clock.gpu_alone(call), clock.late


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raises TimeoutError in the block once `seconds` have passed. A compiler that doesn't return
    to Python is interrupted when it does. Other threads than the main one have no limit."""

    def stop(*_: object) -> NoReturn:
        raise TimeoutError(f"it took more than {seconds:.0f} s")

    if seconds <= 0:
        raise TimeoutError("no time is left")
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    earlier = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier)


def in_turn(calls: Mapping[str, Forward], run: int) -> Iterator[tuple[str, Forward]]:
    """Yields the calls with their names, starting with a different call in each run."""
    names = list(calls)
    at = run % len(names)
    for name in names[at:] + names[:at]:
        yield name, calls[name]


def recurrence(
    sequences: Sequences, inputs: RuleInputs, normalizes: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the right (o, final states) for these inputs, computed token by token in float32. The
    tests compare it with plain PyTorch."""
    states = inputs.states.clone()
    o, _ = fused_recurrent_gated_delta_rule(
        inputs.q.float(),
        inputs.k.float(),
        inputs.v.float(),
        inputs.g.float(),
        inputs.beta.float(),
        initial_state=states,
        cu_seqlens=sequences.starts,
        use_qk_l2norm_in_kernel=normalizes,
    )
    return o, states


def relative_error(found: torch.Tensor, right: torch.Tensor) -> float:
    return float((found.float() - right).norm() / right.norm())
