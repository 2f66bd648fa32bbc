"""Figures and tables of one step agree: the recordings of GPUs match their measured costs."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from debubble.assets import ASSETS
from debubble.timeline import Event, Timeline
from debubble.timeline.bubbles import SMALLEST_GAP, device_work, find_gaps
from debubble.timeline.correction import Clock, as_measured, union, without_load
from debubble.views.timeline.caption import alt_text, origin_of_times
from solutions.measure.benchmark import step_cost
from solutions.measure.stored import PROFILED, STEPS, measured_cost, recording
from tests.timeline.recordings import Recording

RECORDINGS = [
    pytest.param(
        gpu.name, system, path.stem.removeprefix(f"{system}_"), id=f"{gpu.name}-{path.stem}"
    )
    for gpu in sorted((ASSETS / "timelines").iterdir())
    for path in sorted(gpu.glob("*.json"))
    for system in (*STEPS, "offload", "host_bound")
    if path.stem.startswith(f"{system}_")
]
of_every_gpu = pytest.mark.parametrize("gpu, system, variant", RECORDINGS)


def test_every_recording_is_of_a_system():
    assert len(RECORDINGS) == len(list((ASSETS / "timelines").glob("*/*.json")))


@of_every_gpu
def test_a_figure_and_its_table_agree_or_the_figure_says_why(gpu, system, variant):
    """A recording on a GPU and the benchmark's stored costs agree: the step's time, and within a
    tenth the device's share of work. Recordings without stored costs say so in their label."""
    timeline, cost = recording(system, variant, gpu), measured_cost(system, variant, gpu)
    if cost is None:
        assert PROFILED in timeline.label
        return
    device = [event for event in timeline.events if event.on_device]
    span = max(event.end for event in device)
    assert span == pytest.approx(cost["device_us"], rel=0.001)
    worked = sum(end - start for start, end in union((e.start, e.end) for e in device))
    computed = 1 - timeline.idle_share()
    assert 0.9 * computed < 1 - cost["idle_share"] < 1.1 * worked / span
    assert "without a profiler" in timeline.label


@of_every_gpu
def test_a_table_and_a_picture_mean_the_same_by_idle(gpu, system, variant):
    """The idle share that a benchmark computes from a recording equals the idle share in the
    picture of this recording."""
    if measured_cost(system, variant, gpu) is None:
        return
    shown = recording(system, variant, gpu)
    recorded = Timeline.load(ASSETS / "timelines" / gpu / f"{system}_{variant}.json")
    cost = step_cost([(shown.span, 0.0)], recorded)
    # Gaps shrink with the profiler's time, and those below SMALLEST_GAP count as work.
    closed = num_gaps(recorded) - num_gaps(shown)
    bound = 1e-6 + closed * SMALLEST_GAP / shown.span
    assert cost.idle_share == pytest.approx(shown.idle_share(), abs=bound)


def num_gaps(timeline):
    device = device_work(timeline.events, ignore_sleep=True)
    return len([*find_gaps(timeline.events, device)])


@of_every_gpu
def test_nothing_is_lost_on_the_way_but_what_was_over_before_the_step(gpu, system, variant):
    recorded = Timeline.load(ASSETS / "timelines" / gpu / f"{system}_{variant}.json")
    loads = [event.end for event in recorded.events if event.name == "sleep"]
    over = max(loads, default=0.0) if measured_cost(system, variant, gpu) else 0.0
    left = [event.name for event in recorded.events if event.on_device and event.end > over]
    shown = recording(system, variant, gpu)
    assert sorted(event.name for event in shown.events if event.on_device) == sorted(left)
    assert "sleep" not in left or not over


def step(load=1000.0, gap=100.0):
    """Returns a recording of a sleep kernel of `load` µs, and of three kernels of 10 µs each after
    it, with `gap` µs between them. It has no launches."""
    recording = Recording()
    recording.kernel(0, load, name="sleep")
    for number in range(3):
        start = load + number * (10 + gap)
        recording.kernel(start, start + 10)
    return recording.timeline


def test_idle_time_is_scaled_and_work_is_not():
    corrected = as_measured(step(), 130.0)
    kernels = [event for event in corrected.events if event.kind == "kernel"]
    assert [event.duration for event in kernels] == pytest.approx([10] * 3)
    gaps = [after.start - before.end for before, after in pairwise(kernels)]
    assert gaps == pytest.approx([50, 50])
    assert corrected.device_span() == pytest.approx(130)
    assert "idle time × 0.5" in corrected.label


def test_the_picture_says_the_scale():
    corrected = as_measured(step(), 130.0)
    for words in (origin_of_times(corrected, None), alt_text(corrected)):
        assert "idle time × 0.5, as it is without a profiler" in words


def test_the_picture_says_the_scale_of_the_recording_before_too():
    slow, quick = as_measured(step(), 50.0), as_measured(step(), 130.0)
    for words in (origin_of_times(quick, slow), alt_text(quick, slow)):
        assert "idle time × 0.5," in words and "idle time × 0.1," in words


def test_a_step_that_was_measured_at_less_than_its_kernels_is_refused():
    with pytest.raises(ValueError, match=r"measured at 20\.0 µs.+take 30\.0 µs"):
        as_measured(step(), 20.0)


def test_a_recording_of_a_load_alone_is_refused():
    only_load = Timeline("cuda", "a GPU", False, step().events[:1])
    with pytest.raises(ValueError, match="no device work after its load"):
        as_measured(only_load, 20.0)


def test_a_recording_without_a_load_begins_where_it_began():
    kernel = Event("kernel", "add", "stream 0", 5.0, 1.0)
    assert without_load(Timeline("cuda", "a GPU", False, [kernel])).events == [kernel]


stretches = st.lists(st.tuples(st.floats(0, 1e6), st.floats(0.01, 1e3)), min_size=1, max_size=30)


@given(stretches, st.floats(0, 1), st.lists(st.floats(0, 1.1e6), min_size=2, max_size=20))
def test_the_order_of_moments_stays(stretches, scale, moments):
    busy = union((start, start + length) for start, length in stretches)
    clock = Clock(busy, scale)
    placed = [clock(moment) for moment in sorted(moments)]
    assert all(one <= other + 1e-6 for one, other in pairwise(placed))
    for start, end in busy:
        assert clock(end) - clock(start) == pytest.approx(end - start, abs=1e-6)
