"""How a recording on CUDA knows lines, threads and what is allowed; tried here without a GPU."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest
import torch
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile

import debubble
from debubble.cuda import follow
from debubble.cuda.kineto import events_of
from debubble.cuda.marks import BEGIN, END, PREFIX, Marks
from debubble.threads import ANOTHER


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


class Trace:
    """Rows as Kineto writes them."""

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
