"""Marks: how a recording on CUDA knows lines, threads and allowed waits, tested here without a
GPU."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest
import torch
from torch._C._profiler import _ExperimentalConfig
from torch.distributions import Distribution
from torch.profiler import ProfilerActivity, profile

import debubble
from debubble.contract.python import follow
from debubble.cuda.trace.driver_calls import unrecorded_copy_calls
from debubble.cuda.trace.kineto import events_of
from debubble.cuda.trace.marks import COPY, FAILED, Marks, marked_copy
from debubble.timeline.threads import ANOTHER
from debubble.traces.names import BEGIN, END, PREFIX


def work(x):
    x + 1  # plain
    with debubble.allow_host_sync():
        x * 2  # allowed


def test_every_thread_marks_its_calls(tmp_path):
    x, marks = torch.ones(3), Marks()
    everywhere = _ExperimentalConfig(profile_all_threads=True)
    profiler = profile(activities=[ProfilerActivity.CPU], experimental_config=everywhere)
    with ThreadPoolExecutor(1, thread_name_prefix="pool") as pool:
        pool.submit(work, x).result()
        with profiler, follow.into_threads(marks.in_this_thread), marks.in_this_thread():
            work(x)
            thread = threading.Thread(target=work, args=(x,), name="loader")
            thread.start()
            thread.join()
            pool.submit(work, x).result()
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    rows = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    met = [
        (marks.thread(row["tid"]), marks.mark(row["name"]))
        for row in rows
        if row.get("ph") == "X" and row["name"].startswith(PREFIX)
    ]
    found = {(thread, mark.line.text.partition("# ")[2], mark.allowed) for thread, mark in met}
    threads = (None, "loader", "pool_0")
    assert found == {(t, *mark) for t in threads for mark in (("plain", False), ("allowed", True))}


def test_a_thread_that_outlives_the_recording_marks_nothing_more():
    marks, go, made = Marks(), threading.Event(), []

    def late():
        go.wait()
        made.append(marks.here())

    with follow.into_threads(marks.in_this_thread), marks.in_this_thread():
        thread = threading.Thread(target=late)
        thread.start()
    marks.is_over = True
    go.set()
    thread.join()
    assert isinstance(made[0], nullcontext)


def test_a_full_recording_says_so_once_and_goes_on():
    x, told = torch.ones(3), []
    marks = Marks(most_calls=3, when_full=lambda: told.append("full"))
    with marks.in_this_thread():
        for _ in range(5):
            x + 1
    assert marks.is_full
    assert told == ["full"]


def test_a_recording_compiles_the_learners_calls_and_nothing_of_its_own(monkeypatch):
    # Importing PyTorch's compiler makes distributions trust their parameters.
    monkeypatch.setattr(Distribution, "_validate_args", Distribution._validate_args)
    graphs = []

    def keep(graph, examples):
        graphs.append([node.target for node in graph.graph.nodes if node.op.startswith("call")])
        return graph.forward

    with Marks().in_this_thread():
        total = torch.compile(lambda x: x.sum(), backend=keep, fullgraph=True)
        assert total(torch.ones(3)) == 3
    assert graphs == [["sum"]]


class Trace:
    """A made-up profiler trace with rows as Kineto writes them; `events` converts it to a
    timeline's events."""

    def __init__(self, marks: Marks) -> None:
        self.rows: list[dict] = []
        self.main = marks.recorder
        self.add("user_annotation", BEGIN, 0, 1)
        self.add("user_annotation", END, 1000, 1)

    def add(self, category, name, start, duration, tid=None, **args) -> None:
        tid = self.main if tid is None else tid
        row = {"ph": "X", "cat": category, "name": name, "tid": tid, "args": args}
        self.rows.append({**row, "ts": start, "dur": duration})

    def copy(self, start, number, direction, tid=None, nbytes=8) -> None:
        self.add("cuda_runtime", "cudaMemcpyAsync", start, 5, tid, correlation=number)
        place = {"correlation": number, "stream": 7, "bytes": nbytes}
        self.add("gpu_memcpy", f"Memcpy {direction}", start + 4, 2, 7, **place)

    def wait(self, start, duration, number, tid=None) -> None:
        self.add("cuda_runtime", "cudaStreamSynchronize", start, duration, tid, correlation=number)

    def events(self, marks: Marks):
        return events_of({"traceEvents": self.rows}, marks)


@pytest.fixture
def marks():
    marks = Marks()
    marks.here()  # line: 0
    with debubble.allow_host_sync():
        marks.here()  # line: 1
    return marks


def test_a_call_gets_line_and_permission_of_the_mark_around_it(marks):
    trace = Trace(marks)
    trace.add("user_annotation", f"{PREFIX}0", 10, 50)
    trace.copy(20, 1, "DtoH (Device -> Pinned)")
    trace.wait(26, 30, 2)
    trace.add("user_annotation", f"{PREFIX}1", 100, 50)
    trace.wait(110, 30, 3)
    launch, first, second, copy = trace.events(marks)
    assert [event.kind for event in (launch, first, second, copy)] == [
        *("launch", "sync", "sync", "copy"),
    ]
    assert "# line: 0" in first.source.text and not first.allowed
    assert "# line: 1" in second.source.text and second.allowed
    assert "# line: 0" in copy.source.text and not copy.pageable
    assert {event.thread for event in (launch, first, second, copy)} == {None}


def test_the_drivers_own_staging_is_seen(marks):
    trace = Trace(marks)
    trace.copy(20, 1, "DtoH (Device -> Pageable)")
    trace.copy(40, 2, "HtoD (Pageable -> Device)")
    trace.copy(60, 3, "HtoD (Pinned -> Device)")
    copies = [event for event in trace.events(marks) if event.kind == "copy"]
    assert [(copy.copy_kind, copy.pageable) for copy in copies] == [
        *(("d2h", True), ("h2d_pageable", True), ("h2d_pinned", False)),
    ]


def test_threads_are_told_apart_by_name(marks):
    other, unknown = 4_000_001, 4_000_002
    marks._threads[other] = "loader"
    trace = Trace(marks)
    trace.add("user_annotation", f"{PREFIX}0", 10, 100)
    trace.wait(20, 5, 1)
    trace.add("user_annotation", f"{PREFIX}1", 10, 100, other)
    trace.wait(30, 5, 2, other)
    trace.wait(40, 5, 3, unknown)
    events = trace.events(marks)
    assert [event.thread for event in events] == [None, "loader", ANOTHER]
    lines = [event.source.text.partition("# line: ")[2] for event in events]
    assert lines == ["0", "1", "0"], "a thread of PyTorch's works for the line that waits for it"


class DriverCopies(Trace):
    """A trace with copies by functions of CUDA's driver. Kineto leaves out their calls, so our own
    annotations mark them."""

    BATCH = f"{COPY}cuMemcpyBatchAsync"

    def call(self, start, line, function=BATCH, tid=None) -> None:
        self.add("user_annotation", f"{PREFIX}{line}", start, 20, tid)
        self.add("user_annotation", function, start + 2, 10, tid)

    def moved(self, start, correlation, nbytes, stream=21) -> None:
        place = {"correlation": correlation, "stream": stream, "bytes": nbytes}
        self.add("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", start, 50, stream, **place)


def test_a_copy_without_a_call_gets_the_mark_that_was_made_for_it(marks):
    other = 4_000_001
    marks._threads[other] = "loader"
    trace = DriverCopies(marks)
    trace.call(10, line=0)
    trace.copy(40, 6, "HtoD (Pinned -> Device)")
    trace.call(60, line=1, tid=other)
    trace.moved(200, 7, nbytes=1000)
    trace.moved(30, 5, nbytes=4000)
    events = trace.events(marks)
    calls = [event for event in events if event.kind == "launch"]
    first, plain, second = [event for event in events if event.kind == "copy"]
    assert [events[copy.launched_by] for copy in (first, plain, second)] == calls
    assert [(call.name, call.start, call.duration) for call in calls] == [
        ("cuMemcpyBatchAsync", 11, 10),
        ("cudaMemcpyAsync", 39, 5),
        ("cuMemcpyBatchAsync", 61, 10),
    ]
    assert [(copy.bytes, copy.copy_kind) for copy in (first, plain, second)] == [
        *((4000, "h2d_pinned"), (8, "h2d_pinned"), (1000, "h2d_pinned")),
    ]
    for call, copy, line, thread in ((calls[0], first, 0, None), (calls[2], second, 1, "loader")):
        assert f"# line: {line}" in copy.source.text and call.source == copy.source
        assert call.thread == copy.thread == thread and copy.allowed == (line == 1)


def test_one_call_may_be_several_copies(marks):
    trace = DriverCopies(marks)
    trace.call(10, line=0)
    trace.call(40, line=1)
    for start in (20, 90):
        trace.moved(start, 5, nbytes=4)
    trace.moved(150, 6, nbytes=8)
    events = trace.events(marks)
    copies = [event for event in events if event.kind == "copy"]
    assert [(copy.bytes, copy.launched_by) for copy in copies] == [(4, 0), (4, 0), (8, 1)]


def test_a_copy_that_failed_has_no_copy(marks):
    trace = DriverCopies(marks)
    trace.call(10, line=0)
    trace.add("user_annotation", FAILED, 15, 1)
    trace.call(40, line=1)
    trace.moved(60, 5, nbytes=4)
    launch, copy = trace.events(marks)
    assert launch.start == 41
    assert "# line: 1" in copy.source.text


def test_a_failure_in_another_thread_is_not_this_copys(marks):
    trace = DriverCopies(marks)
    trace.call(10, line=0)
    trace.add("user_annotation", FAILED, 15, 1, tid=4_000_001)
    trace.moved(60, 5, nbytes=4)
    assert [event.kind for event in trace.events(marks)] == ["launch", "copy"]


def test_driver_copies_outside_the_bounds_stay_out(marks):
    trace = DriverCopies(marks)
    trace.call(-50, line=0)
    trace.moved(-20, 4, nbytes=1)
    trace.call(10, line=1)
    trace.moved(40, 5, nbytes=2)
    trace.call(1010, line=0)
    trace.moved(1040, 6, nbytes=3)
    (copy,) = [event for event in trace.events(marks) if event.kind == "copy"]
    assert copy.bytes == 2 and "# line: 1" in copy.source.text


def test_a_call_that_kineto_has_after_all_is_taken_from_there(marks):
    trace = DriverCopies(marks)
    single = f"{COPY}cuMemcpyAsync"
    trace.call(10, line=0, function=single)
    trace.add("cuda_driver", "cuMemcpyAsync", 14, 3, correlation=5)
    trace.moved(40, 5, nbytes=2)
    trace.call(70, line=1)
    trace.moved(100, 6, nbytes=4)
    events = trace.events(marks)
    copies = [event for event in events if event.kind == "copy"]
    assert [(copy.bytes, events[copy.launched_by].start) for copy in copies] == [(2, 13), (4, 71)]
    assert "# line: 0" in copies[0].source.text


def test_a_driver_copy_is_marked_even_where_no_line_is_known_and_says_if_it_failed(tmp_path):
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        with marked_copy("cuMemcpyAsync"):
            pass
        with pytest.raises(ValueError), marked_copy("cuMemcpyBatchAsync"):
            raise ValueError
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    rows = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = [row["name"] for row in rows if row["name"].startswith(PREFIX)]
    assert sorted(names) == [f"{COPY}cuMemcpyAsync", f"{COPY}cuMemcpyBatchAsync", FAILED]
    rows.append({"name": "a copy", "cat": "gpu_memcpy", "args": {"correlation": 9}})
    (call,) = unrecorded_copy_calls([row for row in rows if row.get("ph") == "X" or "cat" in row])
    assert (call["name"], call["args"]) == ("cuMemcpyAsync", {"correlation": 9})
