"""The common checks, each a function of the code under test, the accelerator, and the inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

import debubble
from debubble.contract.source_line import count_as_library

from ..instructions import python_instructions
from ..teaching.claims import expect, expect_equal
from ..teaching.diagnosis import Diagnosis, KataFailure
from ..teaching.inputs import BUSY_MS, IN_PLACE, MODELLED_BUSY_MS, left_as_they_were, used
from ..teaching.keeping import WHY as KEPT
from ..teaching.keeping import objects_kept_by
from ..teaching.pinning import no_pinned_memory
from .subject import Call, Common, Likely, Step
from .values import change, pinned, plain, share_memory, snapshot, tensors_of

if TYPE_CHECKING:
    from debubble.accelerator import Accelerator

    from ..running.under_test import KataCode

Check = Callable[["KataCode", "Accelerator", Common], None]
count_as_library(__file__)  # It is the caller of the code under test, as a kata's test is.
ROUNDS = 3
STALE = (
    "Is something of an earlier step still there? Steps shrink and grow, and may be empty, and two "
    "steps of one size have different numbers. What one step wrote must not reach the next one."
)
BUSY = (
    "The device was busy, so what a call had queued was not done when the call returned. What the "
    "host or another stream reads has to be waited for by an event, and memory that a queued copy "
    "still reads must not be written to."
)
STREAM = (
    "The object was made while another stream was current: an engine makes its objects at the "
    "start, and calls them on the stream of the step. Queue copies on the stream that is current "
    "in the call, record events there, and let that stream wait."
)
OWN = (
    "The caller keeps the result of one step while it makes the next, and may write to it. A "
    "result that lies in memory of another result changes with it. Return new memory in each call."
)
CHANGED = (
    "The caller changes its lists, dicts and arrays as soon as the call returns, and the device "
    "may not have come to the copy yet. Take what you need of them within the call, and copy to "
    "the device from memory that is yours."
)
LAUNCHES = (
    "Each launch costs the host several microseconds. Compute all items by the same launches, "
    "however many there are."
)
INSTRUCTIONS = (
    "Work that is done again for each item, over all items, grows with the square of their number. "
    "A step has thousands of them."
)


def steps_one_after_another(kata: KataCode, accelerator: Accelerator, common: Common) -> None:
    """Checks each step's result, after larger and after smaller steps."""
    call, before = common.make(kata, accelerator), ""
    for step in _rounds(common, accelerator, 2, turn=True):
        result = used(_made(step, call))
        likely = (common.stale or STALE) if before else ""
        try:
            _expect_result(common, step, result, before, likely)
        except KataFailure:
            _by_itself(kata, accelerator, common, step)
            raise
        before = f", after {step.call.rstrip(',')},"


def busy_stream(
    kata: KataCode, accelerator: Accelerator, common: Common, *, made_before: bool = False
) -> None:
    """Checks calls on a busy stream; with `made_before` the object was made while another stream
    was current."""
    stream = accelerator.stream()
    with nullcontext() if made_before else stream:
        call = common.make(kata, accelerator)
    steps = _rounds(common, accelerator, ROUNDS)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline, stream:
        _keep_busy(accelerator)
        results = [used(_made(step, call)) for step in steps]
    expect(timeline).no_hazards(why=STREAM if made_before else BUSY)
    accelerator.synchronize()
    when, why = (" on another stream", STREAM) if made_before else (" on a busy stream", BUSY)
    for step, result in zip(steps, results, strict=True):
        _expect_result(common, step, result, when, why)


def results_stay(kata: KataCode, accelerator: Accelerator, common: Common) -> None:
    """Checks that each result has memory of its own, and stays as it is during later calls."""
    call = common.make(kata, accelerator)
    kept: list[tuple[Step, object]] = []
    for step in _rounds(common, accelerator, 2):
        result = _made(step, call)
        for earlier, theirs in kept:
            if share_memory(result, theirs):
                raise Diagnosis(
                    expected=f"the result of {step.call} to have memory of its own",
                    did=f"returned memory that the result of an earlier {earlier.call} has",
                    why=OWN,
                ).failure()
        kept.append((step, result))
    for step, result in kept:
        _expect_result(common, step, result, ", looked at after all later calls,", OWN)


def callers_objects(kata: KataCode, accelerator: Accelerator, common: Common) -> None:
    """Checks that a call leaves its arguments alone, and needs none of them once it returns."""
    call = common.make(kata, accelerator)
    done: list[tuple[Step, object]] = []
    with debubble.record(accelerator) as timeline:
        for step in common.steps(accelerator):
            theirs = tuple(pinned(argument, accelerator) for argument in step.arguments)
            own = [given for place, given in enumerate(theirs) if place not in common.changes]
            before = snapshot(own)
            with left_as_they_were(**{f"a tensor of {step.call}": [*tensors_of(own)]}):
                _keep_busy(accelerator)
                result = used(_made(step, call, theirs))
            whose = f"the arguments of {step.call}, which belong to the caller, after the call"
            _expect_equal(whose, plain(own), before, common, IN_PLACE)
            for argument in own:
                change(argument)
            done.append((step, result))
    expect(timeline).no_hazards(why=CHANGED)
    for step, result in done:
        when = ", whose arguments were changed right after the call,"
        _expect_result(common, step, result, when, CHANGED)


def memory_does_not_grow(kata: KataCode, accelerator: Accelerator, common: Common) -> None:
    """Checks that the code and its object refer to as much after many calls as after a few."""
    call, counts = common.make(kata, accelerator), []
    for _ in range(ROUNDS):
        for step in _rounds(common, accelerator, 2):
            _made(step, call)
            accelerator.synchronize()  # A pool may grow by as many calls as are in flight.
        counts.append(objects_kept_by(kata.loaded, call))
    _, before, after = counts
    if after >= before + 2:
        raise Diagnosis(
            expected="what belongs to a call to be dropped after it",
            did=f"refers to {after:,} objects after {2 * ROUNDS} rounds of the same calls, and "
            f"to {before:,} after {2 * ROUNDS - 2}",
            why=KEPT,
        ).failure()


def launches_do_not_grow(kata: KataCode, accelerator: Accelerator, common: Common) -> None:
    """Checks that a large step takes no more kernels than a small one."""
    call, timelines = common.make(kata, accelerator), []
    for step in _small_and_large(common, accelerator):
        _made(step, call)  # compiles, and fills what is filled once
        accelerator.synchronize()
        with debubble.record(accelerator) as timeline:
            _made(step, call)
        timelines.append(timeline)
    few, many = common.sizes
    limit = max(timelines[0].counts()["kernels"], 1)
    why = f"That is what {few} items take; here there are {many}. {LAUNCHES}"
    expect(timelines[1]).at_most(kernels=limit, why=why)


def work_grows_with_the_step(kata: KataCode, accelerator: Accelerator, common: Common) -> None:
    """Checks that the host's work grows no faster than the number of items."""
    call, counts = common.make(kata, accelerator), []
    for step in _small_and_large(common, accelerator):
        _made(step, call)
        counts.append(python_instructions(partial(_made, step, call)))
    (small, large), (few, many) = counts, common.sizes
    if large > 1.5 * small * many / few:
        raise Diagnosis(
            expected=f"at most {many // few} times the instructions for {many // few} times "
            "the items",
            did=f"runs {small:,} instructions of Python for {few} items, and {large:,} for {many}",
            why=INSTRUCTIONS,
        ).failure()


def pinning_off(kata: KataCode, accelerator: Accelerator, common: Common) -> None:
    """Checks each step's result on a platform that can't pin memory."""
    with no_pinned_memory(accelerator):
        call = common.make(kata, accelerator)
        for step in common.steps(accelerator):
            result = used(_made(step, call))
            _expect_result(common, step, result, " where memory can't be pinned")


def _unless(check: Check, *simpler: Check) -> Check:
    """Returns a check that fails as one of the `simpler` checks fails, if one of them does: then
    what this check adds is not to blame."""

    def run(kata: KataCode, accelerator: Accelerator, common: Common) -> None:
        try:
            check(kata, accelerator, common)
        except KataFailure:
            accelerator.synchronize()
            for other in simpler:
                other(kata, accelerator, common)
            raise

    return run


CHECKS: dict[str, Check] = {
    "steps": steps_one_after_another,
    "stream": _unless(partial(busy_stream, made_before=True), steps_one_after_another, busy_stream),
    "results": _unless(results_stay, steps_one_after_another),
    "objects": _unless(callers_objects, steps_one_after_another, busy_stream),
    "memory": memory_does_not_grow,
    "launches": launches_do_not_grow,
    "work": work_grows_with_the_step,
    "pinning": _unless(pinning_off, steps_one_after_another),
}
"""The checks by the names of `names.TESTS`."""


def _keep_busy(accelerator: Accelerator) -> None:
    accelerator.sleep(MODELLED_BUSY_MS if accelerator.modelled else BUSY_MS)


def _made(step: Step, call: Call, arguments: tuple[object, ...] | None = None) -> object:
    """Makes the call of a step, and returns its result. An error of the code under test gets a note
    that names the call."""
    try:
        return call(*(step.arguments if arguments is None else arguments))
    except KataFailure:
        raise
    except Exception as error:
        error.add_note(f"It came from {step.call.rstrip(',') or 'a call'}.")
        raise


def _rounds(
    common: Common, accelerator: Accelerator, times: int, turn: bool = False
) -> Sequence[Step]:
    """Returns the steps `times` times, with new objects; every second round in the opposite order
    if `turn`. Steps that depend on each other come once."""
    rounds = [[*common.steps(accelerator)] for _ in range(1 if common.in_order else times)]
    return [
        step
        for number, steps in enumerate(rounds)
        for step in (reversed(steps) if turn and number % 2 else steps)
    ]


def _by_itself(kata: KataCode, accelerator: Accelerator, common: Common, step: Step) -> None:
    """Checks the same step without a step before it, unless it depends on them."""
    if common.in_order:
        return
    again = next(other for other in common.steps(accelerator) if other.call == step.call)
    call = common.make(kata.loaded_again(), accelerator)
    _expect_result(common, again, used(_made(again, call)))


def _small_and_large(common: Common, accelerator: Accelerator) -> Sequence[Step]:
    assert common.sized is not None, "COMMON has no `sized`: leave `launches` and `work` out"
    return [common.sized(accelerator, size) for size in common.sizes]


def _expect_result(
    common: Common, step: Step, result: object, when: str = "", likely: Likely = ""
) -> None:
    value = f"{common.result.format(step.call)}{when}"
    _expect_equal(value, plain(result), plain(step.expected), common, likely)


def _expect_equal(
    value: str, actual: object, expected: object, common: Common, likely: Likely = ""
) -> None:
    """Checks a result, a tuple item by item."""
    if isinstance(actual, tuple) and isinstance(expected, tuple) and len(actual) == len(expected):
        several = len(expected) > 1
        for number, (ours, theirs) in enumerate(zip(actual, expected, strict=True)):
            name = f"item {number} of {value}" if several else value
            _expect_equal(name, ours, theirs, common, likely)
        return
    cause = likely or common.likely
    expect_equal(actual, expected, value=value, likely=cause, tolerance=common.tolerance)
