"""Tests of the kata `graph_buckets`."""

import pytest
import torch

import debubble
from debubble.exercises import (
    Common,
    Diagnosis,
    KataFailure,
    Step,
    expect,
    expect_equal,
    expect_refusal,
    in_a_row,
)

WIDTH, SIZES = 4, (8, 64, 2)  # deliberately unsorted
ALL_FIT = (
    "Every step has to run in some graph: the largest size is that of the largest step, and no "
    "step may come between two sizes that are too far apart for it."
)
WASTE = (
    "A graph computes all rows of its capture, and a row of padding costs as much as a real one. "
    "Of a step of 5 rows in a graph of 8, 3 of 8 rows are padding: 37 percent of the device's "
    "time. So the next smaller size must not lie too far below each size."
)
FEWEST = (
    "Each size is another capture, which takes time at the start and memory for as long as the "
    "engine runs. Put each size as far below the next larger one as the padding allows: begin at "
    "`most`, and go down."
)
SMALLEST = (
    "The sizes may come in any order. The smallest one that is not smaller than the step pads the "
    "least: sort the sizes once, and look the step's number of rows up by `bisect_left`."
)
ONE_REPLAY = (
    "One replay computes all rows of a step. Rows that are computed beside it, or by a second "
    "replay, cost launches: that is what the graph was made to save."
)
WAITS = "The number of rows is `len(rows)`, which the host has. Nothing has to come back for it."
ITERABLE = (
    "`sizes` is an Iterable: a generator can be gone through once. Make a sorted list of it first."
)
OWN = (
    "A replay writes its output to the same memory each time. The caller keeps the rows of one "
    "step while the next one is queued: give it a copy."
)
FIRST_CALL = (
    "A compiler makes a kernel for each new shape, and waits for the device to time it. During a "
    "capture no wait is allowed: CUDA ends the capture with an error. So call `forward` with the "
    "same rows once, right before you capture it."
)
TOO_MANY = (
    "A step that no graph holds can't run: refuse it, by a ValueError, before anything is queued."
)


class Doubling:
    """A model of one layer that counts on the device how many rows it computes."""

    def __init__(self, accelerator):
        self.computed = torch.zeros(1, dtype=torch.int64, device=accelerator.device)

    def forward(self, rows):
        self.computed += len(rows)
        return rows * 2 + 1

    def rows_computed(self, call):
        """Returns how many rows the model computes while `call` runs."""
        before = int(self.computed)
        call()
        return int(self.computed) - before


class Compiled(Doubling):
    """A model that compiles when it is called with a new number of rows."""

    def __init__(self, accelerator):
        super().__init__(accelerator)
        self.compiled, self.refused = set(), None

    def forward(self, rows):
        if len(rows) not in self.compiled:
            try:
                self.computed.item()  # waits as a compiler does, which times its kernels
            except RuntimeError:
                self.refused = len(rows)
                raise
            self.compiled.add(len(rows))
        return super().forward(rows)


def inputs_on(accelerator, rows=64):
    return torch.zeros(rows, WIDTH, device=accelerator.device)


def graphs_of(kata, accelerator, sizes=SIZES):
    model = Doubling(accelerator)
    return model, kata.BucketedGraphs(model.forward, inputs_on(accelerator), sizes)


def rows_of(count, accelerator, start=1.0):
    values = torch.arange(start, start + count * WIDTH).view(count, WIDTH)
    return values.to(accelerator.device), values * 2 + 1


def claim(holds, expected, did, why):
    if not holds:
        raise KataFailure(Diagnosis(expected, did, why=why))


def counted(rows):
    return f"{rows} row{'s' * (rows != 1)}"


def padding_of(sizes, count):
    """Returns (the smallest size that holds `count` rows, its rows of padding); (None, 0) if no
    size does."""
    size = min((size for size in sizes if size >= count), default=None)
    return size, (size or count) - count


def fewest(most, percent):
    """Returns the fewest sizes for steps of up to `most` rows, by trying all next smaller sizes."""
    number = [0]
    for size in range(1, most + 1):
        below = [s for s in range(size) if 100 * (size - s - 1) <= percent * size]
        number.append(1 + min(number[s] for s in below))
    return number[most]


LIMITS = [(1, 25), (2, 50), (10, 25), (64, 50), (100, 0), (200, 25), (512, 10), (60, 99)]


@pytest.mark.parametrize(("most", "percent"), LIMITS)
def test_every_step_fits_into_a_size(kata, most, percent):
    sizes = kata.bucket_sizes(most, percent)
    value = f"the last of bucket_sizes({most}, {percent})"
    expect_equal([*sizes][-1:], [most], value=value, likely=ALL_FIT)
    ascending = sorted({*sizes})
    expect_equal([*sizes], ascending, value=f"bucket_sizes({most}, {percent})", likely=FEWEST)


@pytest.mark.parametrize(("most", "percent"), LIMITS)
def test_no_step_is_padded_more_than_allowed(kata, most, percent):
    sizes = kata.bucket_sizes(most, percent)
    for count in range(1, most + 1):
        size, padding = padding_of(sizes, count)
        claim(
            size is not None and 100 * padding <= percent * size,
            expected=f"bucket_sizes({most}, {percent}) to have a size for {counted(count)} of "
            f"which at most {percent} percent is padding",
            did=f"has {size}, with {counted(padding)} of padding",
            why=WASTE,
        )


@pytest.mark.parametrize(("most", "percent"), LIMITS)
def test_there_are_no_more_sizes_than_needed(kata, most, percent):
    sizes, needed = [*kata.bucket_sizes(most, percent)], fewest(most, percent)
    claim(
        len(sizes) <= needed,
        expected=f"{needed} graph{'s' * (needed > 1)} for bucket_sizes({most}, {percent})",
        did=f"returned {len(sizes)} sizes",
        why=FEWEST,
    )


@pytest.mark.parametrize("count", [1, 2, 3, 8, 9, 64])
def test_the_rows_are_right(kata, accelerator, count):
    _, graphs = graphs_of(kata, accelerator)
    rows, right = rows_of(count, accelerator)
    expect_equal(graphs.run(rows), right, call=f"run({counted(count)})")


@pytest.mark.parametrize(("count", "size"), [(1, 2), (2, 2), (3, 8), (8, 8), (9, 64), (64, 64)])
def test_a_step_runs_in_the_smallest_graph_that_holds_it(kata, accelerator, count, size):
    model, graphs = graphs_of(kata, accelerator)
    rows, _ = rows_of(count, accelerator)
    computed = model.rows_computed(lambda: graphs.run(rows))
    claim(
        computed == size,
        expected=f"run({counted(count)}) to compute {size} rows, with graphs of {SIZES} rows",
        did=f"computed {computed}",
        why=SMALLEST if computed > size else ONE_REPLAY,
    )


def test_a_step_is_one_launch(kata, accelerator):
    _, graphs = graphs_of(kata, accelerator)
    rows, _ = rows_of(5, accelerator)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        graphs.run(rows)
    expect(timeline).counts(graph_launches=1, why=ONE_REPLAY)
    expect(timeline).counts(host_syncs=0, why=WAITS)


def test_nothing_is_compiled_during_a_capture(kata, accelerator):
    model = Compiled(accelerator)
    try:
        kata.BucketedGraphs(model.forward, inputs_on(accelerator), SIZES)
    except RuntimeError:
        if model.refused is None:
            raise
    claim(
        model.refused is None,
        expected="nothing to be compiled during a capture",
        did=f"captured `forward` with {counted(model.refused or 0)}, which has to be compiled: "
        f"before that, it had been called with {sorted(model.compiled) or 'no'} rows",
        why=FIRST_CALL,
    )


def test_the_sizes_may_be_a_generator(kata, accelerator):
    rows, _ = rows_of(3, accelerator)
    computed = []
    for sizes in (SIZES, (size for size in (*SIZES, 2))):
        model, graphs = graphs_of(kata, accelerator, sizes)
        computed.append(model.rows_computed(lambda graphs=graphs: graphs.run(rows)))
    value = "the rows that run(3 rows) computes, with sizes from a generator as with a tuple,"
    expect_equal(computed[1], computed[0], value=value, likely=ITERABLE)


@pytest.mark.parametrize("count", [0, 65])
def test_a_step_that_no_graph_holds_is_refused(kata, accelerator, count):
    _, graphs = graphs_of(kata, accelerator)
    rows = inputs_on(accelerator, count)
    expect_refusal(
        lambda: graphs.run(rows), f"{counted(count)} for graphs of {SIZES} rows", why=TOO_MANY
    )


def test_steps_in_flight_do_not_disturb_each_other(kata, accelerator):
    _, graphs = graphs_of(kata, accelerator)
    inputs = [rows_of(1 + number % 9, accelerator, float(number)) for number in range(30)]
    results, timeline = in_a_row(accelerator, lambda number: graphs.run(inputs[number][0]), 30)
    expect(timeline).no_hazards(why=OWN)
    for number, (_, right) in enumerate(inputs):
        value = f"the rows of step {number}, of 30 that were queued while a kernel still ran,"
        expect_equal(results[number], right, value=value, likely=OWN)


def common_steps(accelerator):
    def step(count, start):
        rows, right = rows_of(count, accelerator, start)
        return Step(f"run({counted(count)} from {start:g} on)", (rows,), right)

    return [
        step(64, 1.0),
        step(3, -7.0),
        step(1, 2.0**20),
        step(9, 5.0),
        step(9, -2.0),
        step(2, 0.0),
    ]


def running(kata, accelerator):
    model, graphs = graphs_of(kata, accelerator)
    # The graphs read the tensors of the model, so it stays as long as they do.
    return lambda rows, model=model: graphs.run(rows)


COMMON = Common(
    make=running,
    steps=common_steps,
    sized=lambda accelerator, n: Step("", (rows_of(n, accelerator)[0],), None),
    sizes=(2, 64),
    likely=OWN,
)
