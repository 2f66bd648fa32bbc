"""The report: which waits are found in a recording, and how they are shown."""

import io
import json
import os
from urllib.parse import unquote_to_bytes, urlsplit

import pytest
import torch

import debubble
from debubble import SyncReport, Timeline
from debubble.contract.source_line import SourceLine
from debubble.detector.annotations import sarif
from tests.timeline.recordings import READ, UPLOAD, Recording

from .setting import CLOCKS_APART, only, rest_of_the_load


@pytest.fixture
def x(accelerator):
    return torch.ones(64, 64, device=accelerator.device)


def test_each_line_is_summed_up(x):
    with debubble.find_host_syncs() as report:
        for _ in range(5):
            x.sum().item()  # a value
        print(x[0, 0], file=io.StringIO())  # a print
    reads, prints = sorted(report.findings, key=lambda finding: finding.source.line)
    assert (reads.what, reads.count) == ("a value", 5)
    assert "# a value" in reads.source.text
    assert prints.count > 1
    assert reads.held >= reads.worst > 0
    assert reads.held <= 5 * reads.worst


def test_a_long_wait_costs_what_was_queued_before_it(x, accelerator):
    accelerator.sleep(0.1)
    accelerator.synchronize()
    with debubble.find_host_syncs() as report:
        accelerator.sleep(100)
        x.sum().item()
        x + 1
    finding = only(report.findings)
    assert finding.worst > rest_of_the_load(report.timeline) - CLOCKS_APART
    assert finding.idle > 0


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda s: s.x.cpu(), "a download"),
        (lambda s: s.x[0, 0].item(), "a value"),
        (lambda s: torch.empty(64, 64).copy_(s.x, non_blocking=True), "a pageable download"),
        (lambda s: torch.ones(64, 64).to(s.device), "a pageable upload"),
        (lambda s: torch.ones(64, 64).to(s.device, non_blocking=True), "a staged upload"),
        (lambda s: s.pinned.to(s.device), "a pinned upload"),
        (lambda s: s.pinned[:, :3].to(s.device, non_blocking=True), "a staged upload"),
        (lambda s: s.pinned[:, :3].copy_(s.x[:, :3], non_blocking=True), "a pageable download"),
        (lambda s: s.accelerator.synchronize(), "the device"),
        (lambda s: s.accelerator.current_stream().synchronize(), "a stream"),
        (lambda s: s.event.synchronize(), "an event"),
    ],
)
def test_each_way_of_waiting_has_a_name(x, accelerator, call, what):
    class Setting:
        device, event = accelerator.device, accelerator.event()
        pinned = torch.ones(64, 64, pin_memory=accelerator.pin_memory)

    Setting.x, Setting.accelerator = x, accelerator
    Setting.event.record()
    call(Setting)
    Setting.event.record()
    with debubble.find_host_syncs() as report:
        call(Setting)
    finding = only(report.findings)
    assert (finding.what, finding.count) == (what, 1)
    assert finding.meaning.endswith(".")


@pytest.mark.parametrize("holes", [False, True])
def test_recording_guard_and_report_agree_on_a_copy_into_pageable_memory(x, holes):
    """A copy into pageable memory calls no function of CUDA that synchronises, but blocks the host:
    the recording counts it, the report finds it, and the guard raises. (On an H200 the host waited
    20 ms behind 20 ms of work.)"""
    target = torch.empty(64, 64)[:, :: 2 if holes else 1]

    def copy():
        target.copy_(x[:, : target.shape[1]], non_blocking=True)

    with debubble.record() as recorded:
        copy()
    assert recorded.counts()["host_syncs"] == 0
    assert recorded.kept_by_copies() == 1 and "kept_by_copies=1" in repr(recorded)
    with debubble.find_host_syncs() as report:
        copy()
    assert only(report.findings).is_a_wait
    with debubble.no_host_syncs(), pytest.raises(debubble.HostSyncError, match="keeps the host"):
        copy()


def test_a_copy_that_is_waited_for_is_a_host_sync_alone(x):
    with debubble.record() as recorded:
        x.cpu()
    assert recorded.counts()["host_syncs"] == 1
    assert not recorded.kept_by_copies() and "kept" not in repr(recorded)


def test_what_is_allowed_is_listed_apart(x):
    with debubble.find_host_syncs() as report:
        x.sum().item()
        with debubble.allow_host_sync():
            x.sum().item()  # meant
            x.cpu()  # meant
    assert len(report.findings) == 1
    assert [finding.source.text for finding in report.allowed] != []
    assert all("# meant" in finding.source.text for finding in report.allowed)
    assert {finding.allowed for finding in report.allowed} == {True}
    assert "Allowed: 2 times at 2 lines" in str(report)


def test_nothing_found_is_one_clear_sentence(x):
    with debubble.find_host_syncs() as report:
        x + 1
    assert not report.findings
    assert str(report).startswith("No host syncs: the host never waited for the device (")


def test_nothing_recorded_is_not_taken_for_nothing_found():
    with debubble.find_host_syncs() as report:
        torch.ones(4).sum().item()
    assert not report.used_the_device
    assert "No host syncs" not in str(report)
    assert "Nothing ran on the device" in str(report)


def test_the_label_says_what_the_times_are(x, accelerator):
    with debubble.find_host_syncs() as report:
        x.sum().item()
    word = "modelled" if accelerator.modelled else "measured"
    assert word in str(report).splitlines()[-1]


def test_an_error_in_the_block_leaves_what_was_found(x):
    with pytest.raises(KeyError), debubble.find_host_syncs() as report:
        x.sum().item()
        raise KeyError
    assert len(report.findings) == 1


def test_a_recording_that_is_full_says_so(x):
    with debubble.find_host_syncs(most_calls=20) as report:
        for _ in range(30):
            x + 1
        x.sum().item()
    assert report.timeline.cut_off
    assert not report.findings
    assert 0 < report.timeline.counts()["kernels"] <= 20
    assert "The recording was full" in str(report)


def test_a_full_recording_may_end_where_waiting_is_forbidden(x):
    with debubble.find_host_syncs(most_calls=5) as report, debubble.no_host_syncs():
        for _ in range(30):
            x + 1
    assert report.timeline.cut_off


def test_a_recording_with_room_left_is_whole(x):
    with debubble.find_host_syncs(most_calls=1000) as report:
        x + 1
    assert not report.timeline.cut_off
    assert "full" not in str(report)


def test_a_saved_recording_tells_the_same(x, tmp_path):
    with debubble.find_host_syncs() as report:
        x.sum().item()
        with debubble.allow_host_sync():
            x.cpu()
    report.timeline.save(tmp_path / "timeline.json")
    again = SyncReport.of(Timeline.load(tmp_path / "timeline.json"))
    for before, after in ((report.findings, again.findings), (report.allowed, again.allowed)):
        assert [(f.what, f.source.text, f.count) for f in before] == [
            (f.what, f.source.text, f.count) for f in after
        ]


def test_the_json_form_says_what_the_times_are(x, accelerator):
    with debubble.find_host_syncs() as report:
        x.sum().item()  # here
    data = json.loads(json.dumps(report.as_dict()))
    (row,) = data["findings"]
    assert data["modelled"] is accelerator.modelled
    assert row["file"] == "tests/detector/test_report.py"
    assert row["code"] == "x.sum().item()  # here"
    assert (row["kind"], row["count"], row["thread"]) == ("value", 1, None)
    assert row["held_us"] >= row["worst_us"] > 0
    assert data["allowed"] == []


# Recordings with known times.


def test_a_blocking_copy_is_one_thing_though_it_is_two_calls():
    for copy_kind, kind, held in (
        ("h2d_pinned", "pinned_upload", 26),
        ("h2d_pageable", "pageable_upload", 30),
        ("d2h", "download", 26),
    ):
        recording = Recording()
        call = recording.launch(0, 4, UPLOAD)
        recording.copy(5, 8, copy_kind, launched_by=call)
        recording.sync(4, 30, UPLOAD, name="stream synchronize")
        finding = only(SyncReport.of(recording.timeline).findings)
        assert (finding.kind, finding.count, finding.held) == (kind, 1, held)


def test_a_wait_behind_somebody_elses_copy_is_a_wait_of_its_own():
    recording = Recording()
    call = recording.launch(0, 4, UPLOAD)
    recording.copy(5, 8, "h2d_pinned", launched_by=call)
    recording.sync(4, 30, READ, name="stream synchronize")
    finding = only(SyncReport.of(recording.timeline).findings)
    assert (finding.kind, finding.source) == ("stream", READ)


def test_a_wait_of_another_library_is_told_as_such():
    recording = Recording()
    recording.sync(0, 10, None, name="ctx synchronize")
    report = SyncReport.of(recording.timeline)
    assert only(report.findings).what == "a library"
    assert "(no line known)" in str(report)


def test_the_costliest_line_comes_first_and_figures_add_up():
    recording = Recording()
    recording.sync(0, 10, READ, name="device synchronize")
    recording.sync(10, 50, READ, name="device synchronize")
    recording.sync(60, 160, UPLOAD, name="event synchronize")
    first, second = SyncReport.of(recording.timeline).findings
    assert (first.source, first.held) == (UPLOAD, 100)
    assert (second.count, second.held, second.worst) == (2, 50, 40)


def test_the_idle_time_behind_a_wait_is_the_devices():
    recording = Recording()
    first = recording.launch(0, 4)
    recording.kernel(5, 50, first)
    recording.sync(4, 52, READ, name="device synchronize")
    second = recording.launch(60, 64)
    recording.kernel(70, 80, second)
    finding = only(SyncReport.of(recording.timeline).findings)
    assert finding.idle == 20


@pytest.mark.parametrize(
    "file",
    ["my train.py", "50%25/a#b?c.py", "größe/训练.py", "a:b.py", "[x]\\|<>^.py", "caf\udce9.py"],
)
def test_a_path_in_sarif_is_a_uri_whatever_the_file_is_called(file):
    recording = Recording()
    recording.sync(0, 5, SourceLine(file, 3, "f", "x.item()"))
    (result,) = sarif(SyncReport.of(recording.timeline).findings)["runs"][0]["results"]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri.isascii() and not set(uri) & set(' "<>[]\\^`{|}')
    assert urlsplit(uri).path == uri
    assert unquote_to_bytes(uri) == os.fsencode(file)


def test_operators_that_no_gpu_was_asked_about_are_named(x, tmp_path):
    def report_of(work):
        with debubble.find_host_syncs() as report:
            work()
        return report

    x = x.float()
    assert "measured on a GPU" not in str(report_of(lambda: x.add_(1).exp().sum()))
    report = report_of(lambda: torch.special.bessel_j0(x.erfinv().erfinv()))
    sentence = "2 operators of this run were never measured on a GPU: erfinv, special_bessel_j0."
    measured = debubble.accelerator().name == "cuda"
    assert (sentence in str(report)) is not measured
    assert report.as_dict()["unmeasured"] == ([] if measured else ["erfinv", "special_bessel_j0"])
    report.timeline.save(tmp_path / "timeline.json")
    loaded = debubble.Timeline.load(tmp_path / "timeline.json")
    assert loaded.unmeasured == report.timeline.unmeasured
