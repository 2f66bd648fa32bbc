"""The command `debubble trace FILE`."""

import json

import pytest
import typer

from debubble.assets import ASSETS
from debubble.commands.trace import trace
from debubble.timeline import Event, Hazard, SourceLine, Timeline
from tests.timeline.recordings import LAUNCH, UPLOAD, Recording, transformer_step


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "step.json"
    transformer_step(4).save(path)
    return path


def test_it_prints_lanes_counts_and_bubbles(file, capsys):
    trace(file, width=90)
    printed = capsys.readouterr().out
    assert "sim, modelled on NVIDIA H200" in printed
    assert "stream 0 ┊" in printed
    assert ["pageable", "uploads", "32"] in [line.split() for line in printed.splitlines()]
    (longest,) = [line for line in printed.splitlines() if "waiting for the host  before" in line]
    assert "before.py:41" in longest
    assert max(map(len, printed.splitlines())) <= 90


def test_long_source_lines_leave_room_for_the_figures(capsys):
    """`debubble trace` fits its table into 80 columns with all six headings. (Long source lines
    used to push idle time, share and number out of the terminal.)"""
    recordings = ASSETS / "timelines" / "nvidia-h200"
    trace(recordings / "pinned_h2d_before.json", width=80)
    printed = capsys.readouterr().out.splitlines()
    (heading,) = [line.split() for line in printed if "look at" in line]
    assert heading == ["idle", "share", "bubbles", "cause", "look", "at"]
    assert max(map(len, printed)) <= 80


def test_hazards_are_told(tmp_path, capsys):
    recording = Recording()
    recording.kernel(0, 1)
    message = "line 3 overwrites [slot 0] while its copy is in flight"
    recording.timeline.hazards.append(Hazard("overwritten_in_flight", message, UPLOAD, LAUNCH))
    recording.timeline.save(tmp_path / "race.json")
    trace(tmp_path / "race.json", width=120)
    assert f"hazard: {message}" in capsys.readouterr().out


def test_a_terminal_obeys_nothing_that_a_file_says(tmp_path, capsys):
    orders = "\x1b]0;owned\x07\x1b[2J\u202e\u2028\u2029"
    recording = Recording()
    recording.timeline.description = orders
    recording.kernel(0, 1)
    recording.timeline.events.append(Event("kernel", orders, orders, 9.0, 1.0, UPLOAD))
    recording.timeline.hazards.append(Hazard("read_before_sync", orders, None, None))
    recording.timeline.save(tmp_path / "orders.json")
    trace(tmp_path / "orders.json", width=100)
    printed = capsys.readouterr().out
    assert "hazard: �]0;owned��[2J�" in printed
    assert all(line.isprintable() for line in printed.split("\n"))


def test_many_lanes_and_lines_are_cut_and_counted(tmp_path, capsys):
    events = [
        Event("kernel", "k", f"stream {i}", 20.0 * i, 1.0, SourceLine("a.py", i, "f", ""))
        for i in range(100)
    ]
    Timeline("sim", "sim, modelled on NVIDIA H200", True, events).save(tmp_path / "many.json")
    trace(tmp_path / "many.json", width=100)
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) < 120
    assert "(60 more lanes)" in printed and "(59 more)" in printed


def test_a_timeline_without_events_can_be_printed(tmp_path, capsys):
    Recording().timeline.save(tmp_path / "empty.json")
    trace(tmp_path / "empty.json")
    assert "The device did nothing." in capsys.readouterr().out


def test_it_writes_perfetto_json_instead(file, tmp_path, capsys):
    target = tmp_path / "trace.json"
    trace(file, perfetto=target)
    assert json.loads(target.read_text())["traceEvents"]
    printed = capsys.readouterr().out
    assert "stream 0" not in printed and "modelled" in printed and "ui.perfetto.dev" in printed


def test_a_file_that_can_not_be_read_is_one_sentence_and_status_2(tmp_path, capsys):
    damaged = tmp_path / "damaged.json"
    damaged.write_text("{")
    for path in (damaged, tmp_path / "missing.json"):
        with pytest.raises(typer.Exit) as exit:
            trace(path)
        assert exit.value.exit_code == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert str(path) in captured.err and captured.err.count("\n") == 1


def test_a_target_that_can_not_be_written_is_named(file, tmp_path, capsys):
    target = tmp_path / "nowhere" / "trace.json"
    with pytest.raises(typer.Exit) as exit:
        trace(file, perfetto=target)
    assert exit.value.exit_code == 2
    assert f"{target} can't be written" in capsys.readouterr().err
