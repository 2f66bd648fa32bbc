"""Idle time of a trace is named by its cause and its place, and steps are found."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from debubble.cli import app
from debubble.traces.findings import AFTER_WAIT, COPY, HOST_CAUSES, OTHER, STREAM, UNSEEN, find
from debubble.traces.host import ALLOCATION, LAUNCH, LOADER, LOCK, OPERATORS, OUTSIDE, PYTHON
from debubble.traces.reading import read_trace
from debubble.traces.steps import find_steps
from debubble.traces.summary import compare, summarize

from .handmade import Handmade

DOCS = Path(__file__).parents[2] / "docs"


def trace_of(made: Handmade, tmp_path, **options):
    return read_trace(made.save(tmp_path / "trace.json"), **options)


def gap(between) -> Handmade:
    """Returns a trace of two kernels with 100 microseconds between, which the host spends on what
    `between(made)` adds from 100 to 200."""
    made = Handmade()
    made.function("train.py(7): step", 0, 400)
    made.launched(0, 20, 80)
    between(made)
    made.launched(200, 207, 10, op="aten::mul")
    return made


@pytest.mark.parametrize(
    ("between", "cause"),
    [
        (lambda made: made.function("model.py(3): forward", 100, 99), PYTHON),
        (lambda made: made.op("aten::empty", 100, 99), OPERATORS),
        (lambda made: made.call("cudaMalloc", 100, 99), ALLOCATION),
        (lambda made: made.call("cudaFree", 100, 99), ALLOCATION),
        (lambda made: made.function("threading.py(637): wait", 100, 99), LOCK),
        (
            lambda made: made.host("user_annotation", "enumerate(DataLoader)#_next", 100, 99),
            LOADER,
        ),
    ],
)
def test_what_the_host_does_instead_is_named(tmp_path, between, cause):
    found = find(trace_of(gap(between), tmp_path))
    assert found.causes[HOST_CAUSES[cause]] == pytest.approx(99, abs=10)
    assert found.idle == pytest.approx(107)
    assert found.places[0].cause == HOST_CAUSES[cause]
    assert found.places[0].source.function in ("step", "forward")


def test_without_stacks_python_is_outside_of_pytorch(tmp_path):
    made = Handmade()
    made.launched(0, 20, 80)
    made.launched(200, 207, 10, op="aten::mul")
    found = find(trace_of(made, tmp_path))
    assert found.causes[HOST_CAUSES[OUTSIDE]] == pytest.approx(100)
    assert found.places[0].place == "before mul"


def test_a_wait_is_to_blame_for_the_time_that_the_host_lost_in_it(tmp_path):
    made = gap(lambda made: made.call("cudaStreamSynchronize", 50, 55))
    found = find(trace_of(made, tmp_path))
    assert found.causes[AFTER_WAIT] == pytest.approx(55)
    assert found.causes[HOST_CAUSES[PYTHON]] == pytest.approx(45)
    assert found.idle == pytest.approx(107)
    assert found.places[0].source.function == "step"


def test_the_call_of_a_copy_that_waits_counts_as_the_wait(tmp_path):
    """The host is in the copy for 80 microseconds, and then waits for 2 more."""

    def between(made):
        made.op("aten::copy_", 25, 85)
        copy = made.call("cudaMemcpyAsync", 26, 80)
        made.device("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", copy, 100, 5)
        made.call("cudaStreamSynchronize", 107, 2)

    found = find(trace_of(gap(between), tmp_path))
    assert found.causes[AFTER_WAIT] == pytest.approx(109 - 26)


def test_a_copy_that_waits_in_its_own_call_counts_as_the_wait(tmp_path):
    def between(made):
        made.op("aten::copy_", 48, 60)
        copy = made.call("hipMemcpyWithStream", 50, 55)
        made.device("gpu_memcpy", "Memcpy DtoH (Device -> Host)", copy, 100, 3)

    found = find(trace_of(gap(between), tmp_path))
    assert found.causes[AFTER_WAIT] == pytest.approx(55)
    assert found.places[0].operator == "copy_"


def test_the_code_of_a_data_loader_in_the_same_process_is_named(tmp_path):
    def between(made):
        made.host("user_annotation", "enumerate(DataLoader)#_next", 100, 99)
        made.function("data.py(12): resize", 101, 97)

    place = find(trace_of(gap(between), tmp_path)).places[0]
    assert (place.cause, place.source.function) == (HOST_CAUSES[LOADER], "resize")


def slow_launches(late: float = 0.0) -> Handmade:
    """Returns a trace of a host that is late, and of a device that begins work 25 microseconds
    after its launch, and the last work `late` microseconds later still."""
    made = Handmade()
    for number in range(10):
        made.launched(100 * number, 100 * number + 28 + late * (number == 9), 5)
    return made


def test_work_on_its_way_is_being_launched(tmp_path):
    found = find(trace_of(slow_launches(), tmp_path))
    assert OTHER not in found.causes
    # A call begins after 3 microseconds, and its work 25 later.
    assert found.causes[HOST_CAUSES[LAUNCH]] == pytest.approx(9 * 25)
    assert max(place.times for place in found.places) == 9


def test_work_that_is_longer_on_its_way_than_usual_has_another_reason(tmp_path):
    found = find(trace_of(slow_launches(late=50), tmp_path))
    assert found.causes[OTHER] > 50


def test_copies_and_other_streams_are_named(tmp_path):
    made = Handmade()
    calls = [made.call("cudaLaunchKernel", at) for at in (0, 5, 10)]
    copy = made.call("cudaMemcpyAsync", 15)
    last = made.call("cudaLaunchKernel", 20)
    made.kernel(calls[0], 30, 70)
    made.kernel(calls[1], 150, 50, stream=20)
    made.device("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", copy, 200, 100)
    made.kernel(last, 300, 10)
    found = find(trace_of(made, tmp_path))
    assert found.causes == {STREAM: pytest.approx(50), COPY: pytest.approx(100)}


def test_a_stream_that_starts_long_after_all_others_did_not_wait_for_them(tmp_path):
    made = Handmade()
    calls = [made.call("cudaLaunchKernel", at) for at in (0, 5)]
    made.kernel(calls[0], 30, 70)
    made.kernel(calls[1], 9000, 50, stream=20)
    assert find(trace_of(made, tmp_path)).causes == {OTHER: pytest.approx(8900)}


def test_graphs_without_kernels_are_not_idle(tmp_path):
    made = Handmade()
    made.kernel(made.call("cudaLaunchKernel", 0), 10, 10)
    made.call("cudaGraphLaunch", 20, 5)
    made.kernel(made.call("cudaLaunchKernel", 30), 500, 10)
    trace = trace_of(made, tmp_path)
    found = find(trace)
    assert found.idle == 0 and found.causes == {UNSEEN: pytest.approx(480)}
    assert any("without the nodes of graphs" in note for note in summarize(trace).notes)


def test_no_graph_without_kernels_is_idle_if_there_are_several(tmp_path):
    made = Handmade()
    made.kernel(made.call("cudaLaunchKernel", 0), 10, 10)
    for at in (20, 60):
        made.call("cudaGraphLaunch", at, 5)
        made.call("cudaStreamSynchronize", at + 10, 20)
    made.kernel(made.call("cudaLaunchKernel", 100), 110, 10)
    assert find(trace_of(made, tmp_path)).causes[UNSEEN] == pytest.approx(2 * 30)


def steps(lengths, annotated: bool) -> Handmade:
    made, at = Handmade(), 0.0
    for number, length in enumerate(lengths):
        if annotated:
            made.host("user_annotation", f"ProfilerStep#{number}", at, length)
        for layer in range(4):
            made.launched(at + 20 * layer, at + 20 * layer + 8, 12)
        made.launched(at + 80, at + 90, 5, op="aten::argmax")
        at += length
    return made


@pytest.mark.parametrize("annotated", [True, False])
def test_steps_and_their_outliers_are_found(tmp_path, annotated):
    trace = trace_of(steps([100, 100, 100, 200, 100, 100], annotated), tmp_path)
    found = find_steps(trace)
    assert found.found_by == ("annotations" if annotated else "repeated kernels")
    assert found.usual == pytest.approx(100, abs=1)
    assert [round(step.length) for step in found.outliers] == [200]


def test_work_that_does_not_repeat_has_no_steps(tmp_path):
    made = Handmade()
    for number in range(30):
        made.launched(20 * number, 20 * number + 9, 5, op=f"aten::op{number * number % 29}")
    assert find_steps(trace_of(made, tmp_path)).steps == []


def layers(graphs: int) -> Handmade:
    """Returns a trace of 12 equal layers in each of some launches of a graph."""
    made = Handmade()
    for graph in range(graphs):
        launch = made.call("cudaGraphLaunch", 1000 * graph)
        made.device("kernel", "embed", launch, 1000 * graph + 20, 10)
        for number in range(36):
            name = ["norm", "attention", "mlp"][number % 3]
            made.device("kernel", name, launch, 1000 * graph + 30 + 10 * number, 10)
    return made


@pytest.mark.parametrize(("graphs", "steps"), [(1, 0), (4, 3)])
def test_the_layers_in_a_graph_are_no_steps(tmp_path, graphs, steps):
    assert len(find_steps(trace_of(layers(graphs), tmp_path)).steps) == steps


def test_two_traces_are_compared_by_step_and_place(tmp_path):
    slow = summarize(trace_of(steps([200] * 5, True), tmp_path))
    fast = summarize(trace_of(steps([100] * 5, True), tmp_path))
    assert (slow.step_us, fast.step_us) == (pytest.approx(200), pytest.approx(100))
    assert compare(slow, fast)[0].saved == pytest.approx(80, rel=0.1)
    assert all(change.saved == 0 for change in compare(slow, slow))


def test_the_page_shows_what_the_command_prints():
    page = (DOCS / "read_your_own_trace.md").read_text("utf-8")
    trace = DOCS / "examples/loader.trace.json.gz"
    printed = {" ".join(line.split()) for line in run(trace, "--width", 120).output.splitlines()}
    shown = [block.split("```")[0] for block in page.split("```text\n")[1:]]
    lines = [" ".join(line.split()) for block in shown for line in block.splitlines()]
    assert len(lines) > 10
    assert {*filter(None, lines)} <= printed


def run(*arguments):
    return CliRunner().invoke(app, ["trace", *map(str, arguments)])


def test_the_command_reports_compares_and_fails_for_worse(tmp_path):
    slow = steps([200] * 5, True).save(tmp_path / "slow.json")
    fast = steps([100] * 5, True).save(tmp_path / "fast.json.gz")
    findings = tmp_path / "findings.json"
    ran = run(fast, "--json", findings, "--baseline", slow)
    assert ran.exit_code == 0, ran.output
    assert "5 steps, found by annotations" in ran.output
    assert json.loads(findings.read_text())["usual_step_us"] == pytest.approx(100)
    place = json.loads(findings.read_text())["places"][0]
    assert 0 < place["without_share"] < 1
    assert f"-{place['without_share']:.1%}" in ran.output
    guessed = run(steps([100] * 5, False).save(tmp_path / "guessed.json"))
    assert "found by repeated kernels (layers, if the trace has one step)" in guessed.output
    assert "multiplied by" in run(fast, "--measured", 0.09).output
    worse = run(slow, "--baseline", fast)
    assert worse.exit_code == 1 and "100% slower" in worse.output
    assert run(slow, "--baseline", fast, "--allow", 150).exit_code == 0
    assert run(slow, "--most-idle", 10).exit_code == 1
    assert run(slow, "--step", 2).exit_code == 0
    assert run(slow, "--step", 9).exit_code == 2
