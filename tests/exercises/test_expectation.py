"""Claims about a timeline, and their texts when they fail."""

import pytest
import torch

from debubble.contract.source_line import count_as_library
from debubble.exercises import KataFailure, expect, expect_equal
from debubble.timeline import Event, Hazard, SourceLine, Timeline

LINE = SourceLine(__file__, 3, "<module>")
OTHER = SourceLine(__file__, 6, "<module>")


def timeline_of(*events: Event, hazards=()) -> Timeline:
    return Timeline("sim", "sim, modelled on nothing", True, list(events), list(hazards))


def sync(start: float, source=LINE) -> Event:
    return Event("sync", "wait", "host", start, 5.0, source)


def copy(start: float, copy_kind="h2d_pageable", source=LINE, lane="stream 0") -> Event:
    return Event("copy", copy_kind, lane, start, 2.0, source, copy_kind=copy_kind, bytes=8)


def kernel(start: float, source=OTHER) -> Event:
    return Event("kernel", "k", "stream 0", start, 3.0, source)


def failure_of(claim) -> str:
    with pytest.raises(KataFailure) as raised:
        claim()
    return str(raised.value)


def test_claims_that_hold_are_silent_and_chain():
    timeline = timeline_of(kernel(0.0), copy(3.0, "h2d_pinned"))
    expect(timeline).counts(kernels=1, host_syncs=0).at_most(h2d_pinned=1).no_hazards()


def test_wrong_counts_are_told_as_two_sentences():
    text = failure_of(lambda: expect(timeline_of(sync(0), copy(1))).counts(
        host_syncs=0, h2d_pageable=0, h2d_pinned=1, why="It costs."
    ))  # fmt: skip
    assert text.startswith(
        "Expected no host syncs, no pageable uploads and 1 pinned upload.\n"
        "Your code made 1 host sync, 1 pageable upload and no pinned uploads."
    )
    assert text.endswith("It costs.")


def test_the_line_is_quoted_once_with_how_often():
    events = [event for start in range(0, 30, 10) for event in (sync(start), copy(start))]
    text = failure_of(lambda: expect(timeline_of(*events)).counts(host_syncs=0, h2d_pageable=0))
    assert f"test_expectation.py:3, 3 times:\n    {LINE.text}" in text
    assert text.count("3 times") == 1


def test_lines_that_did_nothing_wrong_are_not_quoted():
    text = failure_of(lambda: expect(timeline_of(kernel(0), sync(4))).counts(host_syncs=0))
    assert OTHER.text not in text


def test_the_lanes_are_drawn():
    text = failure_of(lambda: expect(timeline_of(kernel(0), sync(4))).counts(host_syncs=0))
    assert "  stream 0 ┊" in text and "  host     ┊" in text


def test_too_few_draws_lanes_and_blames_no_line():
    text = failure_of(lambda: expect(timeline_of(kernel(0))).counts(h2d_pinned=1))
    assert "At " not in text and "stream 0" in text


def test_nothing_recorded_draws_nothing():
    text = failure_of(lambda: expect(timeline_of()).counts(h2d_pinned=1))
    assert text == "Expected 1 pinned upload.\nYour code made no pinned uploads."


def test_at_most_allows_less():
    expect(timeline_of()).at_most(d2h=1)
    text = failure_of(lambda: expect(timeline_of(copy(0, "d2h"), copy(3, "d2h"))).at_most(d2h=1))
    assert text.startswith("Expected at most 1 download.\nYour code made 2 downloads.")


def test_a_hazard_is_told_with_both_lines():
    hazard = Hazard("overwritten_in_flight", f"{LINE} overwrote what {OTHER} copies", LINE, OTHER)
    timeline = timeline_of(copy(0), hazards=[hazard, hazard])
    text = failure_of(lambda: expect(timeline).no_hazards(why="An event."))
    assert "Your code has one (1 more like it): test_expectation.py:3 overwrote what" in text
    assert f"    {LINE.text}" in text and f"    {OTHER.text}" in text
    assert text.endswith("An event.")


def test_any_other_claim_completes_the_sentences():
    text = failure_of(lambda: expect(timeline_of(copy(0))).that(
        False, expected="two streams", did="uses one", events=[copy(0)]
    ))  # fmt: skip
    assert text.startswith("Expected two streams.\nYour code uses one.\n\nAt ")


def test_lines_that_are_not_the_learners_are_not_quoted():
    text = failure_of(lambda: expect(timeline_of(copy(0))).that(
        False, expected="two copies", did="made one", events=[copy(0)], quoted=[]
    ))  # fmt: skip
    assert "At " not in text and "here" in text


def test_a_count_that_does_not_exist_is_a_mistake_of_the_test():
    with pytest.raises(TypeError, match="does not count 'syncs': choose from"):
        expect(timeline_of()).counts(syncs=0)


def test_a_print_is_named_as_what_waits():
    line = SourceLine(__file__, 3, "<module>", code="print(losses)")
    text = failure_of(lambda: expect(timeline_of(sync(0, line))).counts(host_syncs=0, why="Costs."))
    assert "A `print` did this" in text and text.endswith("Costs.")


def test_uploads_have_a_size():
    timeline = timeline_of(copy(0), copy(3, "h2d_pinned"), copy(6, "d2h"))
    expect(timeline).sends_at_most(16)
    text = failure_of(lambda: expect(timeline).sends_at_most(15, why="Less will do."))
    assert text.startswith("Expected at most 15 bytes to be uploaded.\nYour code uploads 16 bytes.")


def test_a_line_of_the_test_is_the_callers_and_is_not_quoted(tmp_path):
    file = tmp_path / "test_of_a_kata.py"
    file.write_text("results = [used(call())]\n")
    count_as_library(str(file))
    theirs = SourceLine(str(file), 1, "test")
    race = Hazard("unordered_streams", f"{theirs} uses what {LINE} wrote.", theirs, LINE)
    text = failure_of(lambda: expect(timeline_of(kernel(0), hazards=[race])).no_hazards())
    assert "the caller of your code uses what" in text and "results" not in text
    text = failure_of(lambda: expect(timeline_of(sync(0, theirs))).counts(host_syncs=0))
    assert "results" not in text


@pytest.mark.parametrize(
    ("events", "wanted", "said"),
    [
        ([copy(0)], {"h2d_pageable": 0}, "`non_blocking=True` promises nothing there"),
        ([sync(0), copy(1, "h2d_pinned")], {"host_syncs": 0}, "but the copy blocks"),
        ([sync(0), copy(1)], {"host_syncs": 0}, "An upload from pageable memory is a wait"),
        ([sync(0), copy(1, "h2d_pinned", OTHER)], {"host_syncs": 0}, None),
    ],
)
def test_the_text_tells_why_this_copy_waits(events, wanted, said):
    text = failure_of(lambda: expect(timeline_of(*events)).counts(**wanted, why="Never wait."))
    assert text.endswith("Never wait.")
    said_here = [
        words for words in ("promises nothing", "copy blocks", "is a wait") if words in text
    ]
    assert (said in " ".join(text.split()) and len(said_here) == 1) if said else not said_here


def test_what_can_be_seen_is_not_told_once_more():
    text = failure_of(lambda: expect_equal(torch.tensor(6.0), torch.tensor(0.5), value="it"))
    assert text.endswith("Your code made it 6.0 (float32 []).")
    text = failure_of(lambda: expect_equal([(8, 80)], [(64, 0)], value="it"))
    assert text.endswith("Item 0 is (8, 80) and not (64, 0).")
    assert "1 item and" in failure_of(lambda: expect_equal([1], [1, 2], value="it"))
