"""Traces of an H100 say what our own recordings of the same runs say.

Each `NAME.kept.json.gz` is the file of torch.profiler that `NAME.recording.json.gz` was read from;
`tests/outside/traces/make.py` made both on 2026-11-28, with torch 2.11.
"""

import gzip
import json
from pathlib import Path

import pytest

import debubble
from debubble.traces.reading import read_trace
from debubble.traces.steps import by_period

H100 = Path(__file__).parent / "h100"
PROGRAMS = sorted(path.name.split(".")[0] for path in H100.glob("*.kept.json.gz"))
STEPS = {"decode_eager": 3, "decode_graphs": 8, "decode_piecewise": 3, "training": 4}


def both(program: str):
    trace = read_trace(H100 / f"{program}.kept.json.gz")
    return trace, debubble.Timeline.load(H100 / f"{program}.recording.json.gz")


def test_the_programs_are_there():
    assert len(PROGRAMS) == 7


@pytest.mark.parametrize("program", PROGRAMS)
def test_counts_and_idle_time_are_those_of_the_recording(program):
    trace, recording = both(program)
    assert trace.timeline.counts() == recording.counts()
    assert trace.timeline.idle_share() == pytest.approx(recording.idle_share(), abs=0.001)
    assert trace.timeline.idle_by_cause() == pytest.approx(recording.idle_by_cause(), abs=0.001)


def idle_of(path: Path) -> float:
    """Returns the share of the time from the first work to the last that no kernel covers."""
    rows = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    work = [row for row in rows if row.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    spans = sorted((row["ts"], row["ts"] + row["dur"], row["cat"]) for row in work)
    reached = begin = spans[0][0]
    end = max(span[1] for span in spans)
    busy = 0.0
    for start, stop, category in spans:
        if category != "gpu_memcpy" and stop > reached:
            busy += stop - max(start, reached)
            reached = stop
    return 1 - busy / (end - begin)


@pytest.mark.parametrize("program", PROGRAMS)
def test_idle_time_is_what_no_kernel_covers(program):
    trace, _ = both(program)
    assert trace.timeline.idle_share() == pytest.approx(
        idle_of(H100 / f"{program}.kept.json.gz"), abs=1e-4
    )


@pytest.mark.parametrize("program", ["decode_graphs", "decode_piecewise"])
def test_every_kernel_of_a_graph_is_there(program):
    trace, recording = both(program)

    def in_graphs(timeline):
        launches = (timeline.launch_of(event) for event in timeline.events if event.on_device)
        return sum(launch is not None and launch.kind == "graph_launch" for launch in launches)

    assert in_graphs(trace.timeline) == in_graphs(recording) > 50


@pytest.mark.parametrize("program", STEPS)
def test_steps_are_found_by_what_repeats(program):
    """A step lies between two kernels of one kind, so the last one is not complete."""
    trace, _ = both(program)
    assert STEPS[program] - 1 <= len(by_period(trace)) <= STEPS[program]
