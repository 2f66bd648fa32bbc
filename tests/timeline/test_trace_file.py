"""Timelines are equal after saving and loading; other files are refused with one sentence."""

import json
import os
import random
import tracemalloc
from copy import deepcopy
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from debubble import SyncReport
from debubble.timeline import COPY_KINDS, Event, Hazard, SourceLine, Timeline, TraceFileError
from debubble.timeline.data import TimelineData
from debubble.timeline.event import HOST_KINDS, EventKind
from debubble.timeline.perfetto import chrome_trace
from debubble.timeline.trace_file import encode_timeline, portable_path
from debubble.timeline.trace_reading import decode_timeline
from debubble.views.timeline.lanes import text_lanes
from debubble.views.timeline.tables import bubble_rows
from tests.timeline.recordings import Recording, transformer_step


def lines(inside, forward):
    return st.builds(
        SourceLine,
        st.sampled_from(["a.py", "solutions/pinned_h2d/before.py"]),
        st.integers(1, 10_000),
        st.text(max_size=8),
        st.text(max_size=40),
        st.none() | st.integers(0, 200),
        inside,
        forward,
    )


plain = lines(st.just(()), st.none())
calling = lines(st.lists(plain, max_size=2).map(tuple), st.none())
sources = lines(st.lists(plain, max_size=2).map(tuple), st.none() | calling)
times = st.floats(0, 1e7).map(lambda value: round(value, 3))


@st.composite
def timelines(draw):
    kinds = draw(st.lists(st.sampled_from(get_args(EventKind)), max_size=12))
    calls = [place for place, kind in enumerate(kinds) if kind in HOST_KINDS]
    streams = st.sampled_from(["stream 0", "stream 7"])
    events = []
    for kind in kinds:
        events.append(
            Event(
                kind=kind,
                name=draw(st.text(max_size=20)),
                lane="host" if kind in HOST_KINDS else draw(streams),
                start=draw(times),
                duration=draw(times),
                source=draw(st.none() | sources),
                copy_kind=draw(st.sampled_from(COPY_KINDS)) if kind == "copy" else None,
                bytes=draw(st.integers(0, 2**40)),
                launched_by=draw(st.sampled_from([None, *calls])),
                pageable=draw(st.booleans()),
                allowed=draw(st.booleans()),
                thread=draw(st.none() | st.sampled_from(["loader", "ThreadPoolExecutor-0_0"])),
            )
        )
    hazard = st.builds(
        Hazard,
        st.sampled_from(["overwritten_in_flight", "read_before_sync", "graph_input_freed"]),
        st.text(max_size=40),
        st.none() | sources,
        st.none() | sources,
    )
    return TimelineData(
        draw(st.text(max_size=8)),
        draw(st.text(max_size=20)),
        draw(st.booleans()),
        events,
        draw(st.lists(hazard, max_size=3)),
        draw(st.booleans()),
    )


@given(timelines())
def test_what_is_saved_is_what_is_loaded(timeline):
    assert decode_timeline(encode_timeline(timeline), "trace.json") == timeline


def test_a_saved_file_reads_the_same_after_the_source_is_gone(tmp_path):
    code = tmp_path / "learner.py"
    code.write_text("first = 1\nloss.item()  # here\n")
    recording = Recording()
    recording.sync(0, 5, SourceLine(str(code), 2, "train"))
    recording.timeline.save(tmp_path / "trace.json")
    code.unlink()
    (event,) = Timeline.load(tmp_path / "trace.json").events
    assert event.source.text == "loss.item()  # here"
    assert event.source.place == "learner.py:2"


def test_no_absolute_path_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    repository_file = os.path.abspath(__file__)
    assert portable_path(str(tmp_path / "mine" / "a.py")) == "mine/a.py"
    assert portable_path(repository_file) == "tests/timeline/test_trace_file.py"
    assert portable_path("/home/ada/secret/elsewhere.py") == "elsewhere.py"
    assert portable_path("/home/ada/venv/lib/site-packages/vllm/runner.py") == "vllm/runner.py"
    assert portable_path("/tmp/ipykernel_4242/77.py") == "ipykernel_/77.py"


def test_a_notebook_line_is_still_one_after_loading(tmp_path):
    recording = Recording()
    recording.sync(0, 5, SourceLine("/tmp/ipykernel_4242/77.py", 3, "<module>"))
    recording.timeline.save(tmp_path / "trace.json")
    (event,) = Timeline.load(tmp_path / "trace.json").events
    assert event.source.place == "this notebook, line 3"


def test_a_notebook_line_names_its_cell_also_after_loading(tmp_path):
    """Runs a cell in IPython, as a notebook does, whose recording names the cell's number."""
    from IPython.core.interactiveshell import InteractiveShell

    path = tmp_path / "trace.json"
    shell = InteractiveShell.instance()
    shell.execution_count = 12
    try:
        shell.user_ns["path"] = path
        ran = shell.run_cell(CELL, store_history=True)
        ran.raise_error()
        (event,) = Timeline.load(path).events
        assert event.source.place == shell.user_ns["place"] == "cell [12], line 5"
    finally:
        InteractiveShell.clear_instance()
    (event,) = Timeline.load(path).events
    assert event.source.place == "cell [12], line 5"


CELL = """import sys
from debubble.timeline import SourceLine
from tests.timeline.recordings import Recording
recording = Recording()
line = SourceLine(sys._getframe().f_code.co_filename, 5, "<module>")
recording.sync(0, 5, line)
place = line.place
recording.timeline.save(path)
"""


def test_names_and_lines_are_written_once(tmp_path):
    path = tmp_path / "trace.json"
    timeline = transformer_step(4, layers=50)
    timeline.save(path)
    text = path.read_text()
    assert text.count("torch.tensor(spans") == text.count("cudaStreamSynchronize") == 1
    assert path.stat().st_size < 40 * len(timeline.events)


def test_a_file_from_before_allowed_waits_and_threads_can_still_be_read():
    timeline = transformer_step(1)
    text = encode_timeline(timeline)
    assert not {"allowed", "pageable", "thread"} & json.loads(text)["events"].keys()
    assert decode_timeline(text, "trace.json").events[0].thread is None
    assert not any(event.allowed for event in decode_timeline(text, "trace.json").events)


def test_a_text_of_any_length_is_cut_so_that_it_can_be_loaded(tmp_path):
    long = "x" * 12_000
    source = SourceLine(long, 1, long, long)
    recording = Recording()
    recording.kernel(0, 10, name=long, source=source)
    recording.timeline.hazards.append(Hazard("read_before_sync", long, source, None))
    recording.timeline.description = long
    recording.timeline.save(tmp_path / "long.json")
    loaded = Timeline.load(tmp_path / "long.json")
    assert loaded.hazards[0].message == loaded.events[0].name == loaded.description == long[:10_000]
    assert loaded.hazards[0].first == SourceLine(long[:10_000], 1, long[:10_000], long[:10_000])


def test_a_file_whose_name_is_not_utf8_can_be_saved(tmp_path):
    recording = Recording()
    recording.kernel(0, 10, source=SourceLine("caf\udce9.py", 1, "f", "x = 1"))
    recording.timeline.save(tmp_path / "name.json")
    assert Timeline.load(tmp_path / "name.json").events[0].source.file == "caf?.py"


def test_a_save_that_fails_leaves_the_old_file_alone(tmp_path):
    path = tmp_path / "trace.json"
    transformer_step(1).save(path)
    old = path.read_bytes()
    broken = transformer_step(1)
    broken.events.append(Event("kernel", "gemm", "stream 0", float("nan"), 1.0))
    with pytest.raises(ValueError):
        broken.save(path)
    assert path.read_bytes() == old
    assert os.listdir(tmp_path) == ["trace.json"]


def saved(**changes) -> str:
    data = json.loads(encode_timeline(transformer_step(1)))
    data.update(changes)
    return json.dumps(data)


def saved_events(**columns) -> str:
    data = json.loads(encode_timeline(transformer_step(1)))
    data["events"].update(columns)
    return json.dumps(data)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "it is empty"),
        ("hello", "it is not JSON"),
        (b"\x89PNG\r\n\xff\xfe", "it is not text"),
        ("[1, 2]", "but other JSON"),
        ('{"traceEvents": []}', "no operators, calls or kernels of torch.profiler"),
        (encode_timeline(transformer_step(1))[:-40], "cut off or damaged at character"),
        (encode_timeline(transformer_step(1))[:60], "cut off or damaged"),
        (saved(version=2), "is version 2 of the format, this debubble reads version 1"),
        (saved(names=[]), "points outside a table of 0"),
        (saved(events={}), "'kind' is missing"),
        (saved(steps=[["a", 2.0, 1.0]]), "a step begins at 2 and ends before, at 1"),
        (saved(steps=[["a", 0.0, 1e300]]), "is not a number of microseconds"),
        (saved(steps=[[7, 0.0, 1.0]]), "7 stands where a text belongs"),
        (saved(steps=[["a", 0.0]]), "damaged"),
        (saved(events=None), "damaged"),
        (saved_events(start=[]), "its event columns differ in length"),
        ("[" * 100_000, "nests too deep"),
        (saved(names=[{}]), "{} stands where a text belongs"),
        (saved(names=["x" * 10_001]), "a text of 10,001 characters"),
        (saved(names=["\ud800"]), "holds half a character"),
        (saved(sources=[["a.py", "3", "f", ""]]), "the line '3' is no line number"),
        (saved(hazards=[["fire", "", None, None]]), "a hazard of the unknown kind 'fire'"),
        (saved(modelled="no"), "the flag 'no' is neither true nor false"),
        (saved(version=True), "is version True of the format"),
        (saved(version=10**400), "... of the format"),
    ],
)
def test_a_file_that_holds_no_timeline_is_refused_in_one_sentence(tmp_path, content, says):
    path = tmp_path / "strange.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(TraceFileError) as refusal:
        Timeline.load(path)
    message = str(refusal.value)
    assert says in message
    assert str(path) in message
    assert message.endswith(".") and "\n" not in message and len(message) < 250


def test_a_file_without_an_end_is_not_read_to_it(monkeypatch):
    monkeypatch.setattr("debubble.timeline.trace_file.MOST_BYTES", 2**20)
    with pytest.raises(TraceFileError, match=r"^/dev/zero is too large .* 1 MiB are read at most"):
        Timeline.load("/dev/zero")


NASTY = (
    *(None, True, -1, 0, 1.5, 2**31, 2**63, 10**400, float("nan"), float("inf"), -1e308),
    *("", "\x1b[2J", "\u202e", "host", "stream " + "9" * 30, "stream \u00b2", "sync", "copy"),
    *([], {}, [None], [[]], {"a": 1}, [0] * 7),
)


def with_libraries() -> Timeline:
    """Returns a recording whose events have a line in a library, an inner line and a forward line,
    so that every kind of entry is in its file."""
    timeline = transformer_step(1)
    line = SourceLine("lib.py", 7, "pick", "x.item()", 4)
    more = {"column": 2, "inside": (line,), "forward": line}
    timeline.events = [
        replace(event, source=event.source and event.source._replace(**more))
        for event in timeline.events
    ]
    return timeline


def damaged(chance: random.Random) -> str:
    """Returns the text of a recording's file in which one to three values, at any depth, are
    replaced. One in twenty is cut off too."""
    data = json.loads(encode_timeline(with_libraries()))
    for _ in range(chance.randint(1, 3)):
        parent, place, inner = {"": data}, "", data
        while isinstance(inner, (dict, list)) and inner and chance.random() < 0.9:
            parent = inner
            place = chance.choice([*inner] if isinstance(inner, dict) else range(len(inner)))
            inner = parent[place]
        nasty = deepcopy(chance.choice(NASTY))
        many = isinstance(inner, list) and chance.random() < 0.3
        parent[place] = [nasty] * len(inner) if many else nasty
    text = json.dumps(data)
    return text[: chance.randrange(len(text))] if chance.random() < 0.05 else text


@pytest.mark.sim
@pytest.mark.deep(50)
@pytest.mark.parametrize("seed", range(50))
def test_of_a_damaged_file_it_tells_or_shows_what_is_there(seed, tmp_path):
    """Each of 200 damaged files gives one short error, or a timeline that can be shown, exported
    and saved."""
    chance, path, shown = random.Random(seed), tmp_path / "strange.json", 0
    for _ in range(200):
        text = damaged(chance).encode(errors="surrogatepass")
        if chance.random() < 0.2:
            at = chance.randrange(len(text) + 1)
            text = text[:at] + chance.randbytes(chance.randint(1, 3)) + text[at + 1 :]
        path.write_bytes(text)
        try:
            timeline = Timeline.load(path)
        except TraceFileError as refusal:
            assert "\n" not in str(refusal) and len(str(refusal)) < 300 + len(str(path))
            continue
        shown += 1
        rows = bubble_rows(timeline.bubbles(), timeline.span)
        found = str(SyncReport.of(timeline))
        printed = "\n".join([text_lanes(timeline), *map(" ".join, rows), found])
        assert all(line.isprintable() for line in printed.split("\n"))
        json.loads(json.dumps(chrome_trace(timeline), allow_nan=False))
        again = decode_timeline(encode_timeline(timeline), path)
        assert decode_timeline(encode_timeline(again), path) == again
    assert 0 < shown < 200


def test_lines_inside_others_are_checked():
    data = json.loads(encode_timeline(with_libraries()))
    for key, value, says in (
        ("source_columns", [-1] * len(data["sources"]), "the column -1 is no column of a line"),
        ("source_columns", [1], "its source columns differ in length"),
        ("source_insides", [[99]] * len(data["sources"]), "a line inside points outside a table"),
        ("source_insides", [[0] * 400_000] * len(data["sources"]), "more than 1,000,000 lines"),
    ):
        with pytest.raises(TraceFileError, match=says):
            decode_timeline(json.dumps({**data, key: value}), "strange.json")


def peak_of(call) -> int:
    """Returns the most bytes that Python's allocations take at once during the call."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_reading_and_exporting_take_memory_by_the_file(tmp_path):
    path, exported = tmp_path / "long.json", tmp_path / "long.perfetto.json"
    timeline = transformer_step(4, layers=800)
    timeline.save(path)
    assert peak_of(lambda: Timeline.load(path)) < 40 * path.stat().st_size
    # Events are written in batches of a few MiB. All at once would take three times the file's
    # size.
    assert peak_of(lambda: timeline.to_perfetto(exported)) < 6 * 2**20 + exported.stat().st_size / 2
    assert json.loads(exported.read_text()) == json.loads(json.dumps(chrome_trace(timeline)))


def test_wrong_values_in_the_columns_are_named():
    count = len(transformer_step(1).events)
    for columns, says in (
        ({"start": ["now"] * count}, "the time 'now' is not a number"),
        ({"launched_by": [999] * count}, f"an event is launched by event 999 of {count}"),
        ({"kind": [2] * count}, "an event of the unknown kind 'host'"),
        ({"copy_kind": [None] * count}, "a copy of the unknown kind None"),
        ({"allowed": [1] * count}, "the flag 1 is neither true nor false"),
        ({"start": [float("nan")] * count}, "the time nan is not a number"),
        ({"start": [10**400] * count}, r"the time 1000\S+\.\.\. is not a number"),
        ({"start": [float("inf")] * count}, "the time inf is not a number"),
        ({"duration": [-1.0] * count}, r"the time -1\.0 is not a number .* from 0 to 1e\+12\.$"),
        ({"start": [True] * count}, "the time True is not a number"),
        ({"bytes": [-1] * count}, "the number of bytes -1 is not a whole one"),
        ({"bytes": [1.5] * count}, "the number of bytes 1.5 is not a whole one"),
        ({"launched_by": [0.0] * count}, "launched by event 0.0"),
        ({"lane": [None] * count}, "on the lane None"),
        ({"lane": [True] * count}, "index True points outside"),
        ({"name": [None] * count}, "an event without a name"),
        ({"start": [-1e13] * count}, r"the time -1\S+0 is not .* from -1e\+12 to 1e\+12\.$"),
    ):
        with pytest.raises(TraceFileError, match=says):
            decode_timeline(saved_events(**columns), "strange.json")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(TraceFileError, match=r"nowhere\.json can't be read: No such file"):
        Timeline.load(tmp_path / "nowhere.json")
