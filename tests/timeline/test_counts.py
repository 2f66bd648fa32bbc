"""The counts of a timeline, and its description."""

import pytest

from debubble.timeline import Event, Timeline
from tests.timeline.recordings import Recording, transformer_step


def test_counts_name_every_kind_in_a_fixed_order():
    recording = Recording()
    recording.host("graph_launch", 0, 1)
    recording.sync(1, 2)
    recording.sync(2, 3)
    recording.kernel(3, 4)
    for kind in ("h2d_pageable", "h2d_pinned", "h2d_pinned", "d2h", "d2d"):
        recording.copy(5, 6, kind)
    assert list(recording.timeline.counts().items()) == [
        ("host_syncs", 2),
        ("h2d_pageable", 1),
        ("h2d_pinned", 2),
        ("d2h", 1),
        ("d2d", 1),
        ("kernels", 1),
        ("graph_launches", 1),
    ]


def test_a_memset_is_counted_as_nothing_and_yet_keeps_the_device_busy():
    timeline = Timeline("sim", "sim", True)
    timeline.events.append(Event("memset", "fill", "stream 0", 2.0, 5.0))
    assert not any(timeline.counts().values())
    assert timeline.busy() == 5.0


def test_an_empty_timeline_answers_everything():
    timeline = Timeline(accelerator="sim", description="sim", modelled=True)
    assert timeline.span == timeline.busy() == timeline.idle_share() == 0.0
    assert timeline.bubbles() == []
    assert set(timeline.idle_by_cause().values()) == {0.0}


@pytest.mark.parametrize(
    ("description", "modelled", "label"),
    [
        ("NVIDIA H200", False, "measured on NVIDIA H200"),
        ("sim, modelled on NVIDIA H200", True, "sim, modelled on NVIDIA H200"),
        ("a laptop", True, "modelled on a laptop"),
    ],
)
def test_the_label_always_says_modelled_or_measured(description, modelled, label):
    assert Timeline("any", description, modelled).label == label


def test_the_text_form_holds_no_times_and_no_accelerator():
    modelled = transformer_step(2, modelled=True)
    measured = transformer_step(2, modelled=False, slowness=3.7)
    assert measured.span != modelled.span
    assert repr(modelled) == repr(measured)
    assert modelled._repr_mimebundle_() == measured._repr_mimebundle_()


def test_outside_a_notebook_show_prints_lanes(capsys):
    transformer_step(1).show(before=transformer_step(2))
    printed = capsys.readouterr().out
    assert printed.count("stream 0") == 2
    assert printed.index("before:") < printed.index("after:")


def test_a_comparison_tells_what_changed():
    comparison = transformer_step(4).compare(transformer_step(0))
    assert comparison.count_differences == {
        "host_syncs": -32,
        "h2d_pageable": -32,
        "h2d_pinned": 1,
    }
    old, new = comparison.idle_share
    assert new < 0.05 < 0.2 < old
    host_wait = comparison.idle_by_cause["waiting for the host"]
    assert host_wait[0] > 0.1 and host_wait[1] == 0.0
    table = comparison.table().splitlines()
    assert "host syncs                    32         0" in table
    assert any("waiting for the host" in line and line.endswith("0%") for line in table)


def test_a_comparisons_text_form_is_the_same_whatever_the_times():
    quick = transformer_step(4).compare(transformer_step(0))
    slow = transformer_step(4, slowness=9.0).compare(transformer_step(0, slowness=9.0))
    assert quick.table() != slow.table()
    assert repr(quick) == repr(slow)
