"""A step without one of its waits takes the time that a replay predicts."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from debubble.traces.findings import AFTER_WAIT, COPY, GAP, HOST_CAUSES, Finding, find
from debubble.traces.host import OPERATORS
from debubble.traces.reading import read_trace
from debubble.traces.replay.critical import BETWEEN, KERNELS, critical_path
from debubble.traces.replay.without import Without, host_scale_for
from tests.outside.traces.predict import dropped_operators, gains, is_dropped

from .handmade import Handmade

H100 = Path(__file__).parent / "h100"
PAIRS = json.loads((H100 / "pairs.json").read_text("utf-8"))


def trace_of(made: Handmade, tmp_path):
    return read_trace(made.save(tmp_path / "trace.json"))


def replay_of(made: Handmade, tmp_path):
    trace = trace_of(made, tmp_path)
    return Without(trace), find(trace).places


def waiting(kernel: float, host: float, steps: int = 10) -> Handmade:
    """Returns steps of one kernel each. The host launches it, waits for it, and then works for
    `host` microseconds before the next launch. A launch and its latency are 5 microseconds each."""
    made, at = Handmade(), 0.0
    for _ in range(steps):
        launch = made.call("cudaLaunchKernel", at, 5)
        made.kernel(launch, at + 5, kernel)
        made.op("aten::item", at + 5, kernel + 1)
        made.call("cudaStreamSynchronize", at + 6, kernel)
        at += 6 + kernel + host
    return made


@pytest.mark.parametrize(
    ("kernel", "host", "expected"),
    [
        (100, 50, 5 + 10 * 100 + 9 * 1),  # the device is busy, but for 1 microsecond a kernel
        (20, 50, 9 * (5 + 1 + 50) + 5 + 20),  # the host is the slower one
    ],
)
def test_without_a_wait_the_slower_side_is_left(tmp_path, kernel, host, expected):
    replay, places = replay_of(waiting(kernel, host), tmp_path)
    waits = [place for place in places if place.cause == AFTER_WAIT]
    assert [place.operator for place in waits] == ["item"]
    assert replay.span([]) == pytest.approx(10 * (6 + kernel + host) - host, abs=2)
    assert replay.span(waits) == pytest.approx(expected, abs=12)
    assert replay.share(waits) == pytest.approx(1 - expected / replay.span([]), abs=0.02)


@pytest.mark.parametrize(("kernel", "host", "kind"), [(100, 20, KERNELS), (20, 50, BETWEEN)])
def test_the_critical_path_is_where_the_time_goes(tmp_path, kernel, host, kind):
    replay, _ = replay_of(waiting(kernel, host), tmp_path)
    path = critical_path(replay.graph, replay.events)
    assert path[0].start == 0 and path[-1].end == replay.span([])
    assert all(first.end == second.start for first, second in pairwise(path))
    largest = replay.path()[0]
    assert (largest.kind, round(sum(part.share for part in replay.path()), 6)) == (kind, 1)
    assert largest.share == pytest.approx(max(kernel, host) / (kernel + host), abs=0.15)


def test_work_that_ran_before_the_trace_is_no_latency(tmp_path):
    """The stream is busy for 900 microseconds when the trace begins: what follows waits for it."""
    made = Handmade()
    calls = [made.call("cudaLaunchKernel", 0, 5), made.call("cudaGraphLaunch", 100, 10)]
    made.kernel(calls[0], 900, 10)
    for number in range(20):
        made.kernel(calls[1], 910 + 10 * number, 10)
    replay, _ = replay_of(made, tmp_path)
    path = critical_path(replay.graph, replay.events)
    kernels = sum(link.end - link.start for link in path if link.kind == KERNELS)
    assert kernels == pytest.approx(210)


def test_a_wait_for_nothing_is_worth_nothing(tmp_path):
    made = Handmade()
    for step in range(10):
        made.launched(100 * step, 100 * step + 10, 10)
        made.op("aten::item", 100 * step + 40, 5)
        made.call("cudaStreamSynchronize", 100 * step + 41, 2)
    replay, places = replay_of(made, tmp_path)
    waits = [place for place in places if place.cause == AFTER_WAIT]
    assert (replay.share(waits) or 0.0) < 0.03


def test_without_an_operator_its_own_time_on_the_host_is_gone(tmp_path):
    made = Handmade()
    for step in range(10):
        made.op("aten::slow", 100 * step + 20, 60)
        made.launched(100 * step + 82, 100 * step + 90, 5)
    replay, places = replay_of(made, tmp_path)
    slow = [f for f in places if (f.cause, f.operator) == (HOST_CAUSES[OPERATORS], "slow")]
    # The first 60 microseconds lie before the first call, where no replay begins.
    assert replay.share(slow) == pytest.approx(9 * 60 / replay.span([]), abs=0.01)


def test_without_a_pageable_copy_neither_stream_nor_host_wait_for_it(tmp_path):
    made, at = Handmade(), 0.0
    for _ in range(10):
        made.op("aten::copy_", at, 200)
        copy = made.call("cudaMemcpyAsync", at + 1, 195)
        made.device("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", copy, at + 5, 190)
        made.call("cudaStreamSynchronize", at + 197, 2)
        made.op("aten::mm", at + 205, 10)
        made.kernel(made.call("cudaLaunchKernel", at + 206, 5), at + 211, 89)
        at += 300
    replay, places = replay_of(made, tmp_path)
    copies = [f for f in places if f.cause in (COPY, AFTER_WAIT)]
    assert any(f.cause == COPY for f in copies)
    # The host needs 19 microseconds for a step's calls, and 89 until the next step.
    assert replay.span(copies) == pytest.approx(10 * (19 + 89), abs=5)


def test_work_of_another_stream_is_still_waited_for(tmp_path):
    """Stream 20 begins when stream 7 is done, so a faster launch of it gains nothing."""
    made = Handmade()
    calls = [made.call("cudaLaunchKernel", at, 3) for at in (0, 4, 8)]
    made.kernel(calls[0], 10, 200)
    made.kernel(calls[1], 212, 100, stream=20)
    made.kernel(calls[2], 314, 50)
    replay, _ = replay_of(made, tmp_path)
    assert replay.span([]) == pytest.approx(364)
    edges = {edge.node for edge in replay.graph.edges[2 * 4]}
    assert len(edges) == 2 and 2 * 3 + 1 in edges


def test_operators_that_a_change_drops_are_found(tmp_path):
    before, after = Handmade(), Handmade()
    for step in range(4):
        for made, more in ((before, ["aten::to"]), (after, ["aten::to"] if step == 0 else [])):
            for name in [*more, "aten::mm"]:
                made.launched(100 * step, 100 * step + 10, 5, op=name)
    rows = [trace_of(made, tmp_path).rows for made in (before, after)]
    assert dropped_operators(*rows) == {"to"}
    cause = HOST_CAUSES[OPERATORS]
    found = [Finding(cause, None, name, 10.0, 1) for name in ("to", "before to", "mm")]
    assert [is_dropped(finding, {"to"}) for finding in found] == [True, True, False]


def test_causes_that_name_no_work_have_no_prediction(tmp_path):
    replay, _ = replay_of(waiting(10, 20), tmp_path)
    assert replay.share([Finding(GAP, None, None, 10.0, 1)]) is None


def test_a_slow_profiler_is_scaled_away(tmp_path):
    """Half of the time between the kernels, if the measured step had half of it."""
    trace = trace_of(waiting(100, 200), tmp_path)
    whole = Without(trace).span([])
    measured = whole - 9 * 100
    assert host_scale_for(trace, measured) == pytest.approx(0.5, abs=0.04)
    assert Without(trace, 0.5).span([]) == pytest.approx(measured, rel=0.03)
    assert host_scale_for(trace, 2 * whole) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("name", PAIRS)
def test_the_gain_of_a_real_change_is_predicted(name):
    """Both sides were timed on an H100 without a profiler; the trace is of the side before."""
    gain, predicted = gains(H100 / f"{name}.before.json.gz", name, PAIRS[name])
    assert gain > 0.05
    assert predicted == pytest.approx(gain, abs=0.03)
