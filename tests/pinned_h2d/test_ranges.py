"""Valid ranges, and the errors for all others."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import debubble
from solutions.pinned_h2d import (
    NOT_COMPUTED,
    ModelRunner,
    PrefixRangeBuffer,
    TritonAttentionMetadata,
    check_ranges,
    compute_mm_prefix_range_tensor,
)
from solutions.pinned_h2d import ranges as ranges_module
from solutions.pinned_h2d.ranges import touches
from tests.instructions import instructions_of

BAD = [
    ({0: [(1, 4)], 2: [(9, 3)]}, ValueError, r"request 2: span \(9, 3\) starts after its end"),
    ({1: [(-1, 3)]}, ValueError, r"request 1: span \(-1, 3\) must not start below position 0"),
    ({1: [(0.0, 3)]}, TypeError, r"request 1: span \(0.0, 3\) must hold two integers"),
    ({1: [("1", "3")]}, TypeError, r"request 1: span \('1', '3'\) must hold two integers"),
    ({1: [(1, 2, 3)]}, TypeError, r"request 1: span \(1, 2, 3\) must be a pair"),
    ({1: [4]}, TypeError, r"request 1: span 4 must be a pair"),
    ({1: (1, 2)}, TypeError, r"request 1: span 1 must be a pair"),
    ({1: [(0, 2**31)]}, ValueError, r"request 1: span \(0, 2147483648\) must fit int32"),
    ({1: [(0, 2**31 - 1), (0, 2**31)]}, ValueError, r"span \(0, 2147483648\) must fit int32"),
    ({-1: [(0, 3)]}, ValueError, r"request -1: a request index must not be negative"),
]
bad_ranges = pytest.mark.parametrize(("ranges", "error", "text"), BAD, ids=lambda v: repr(v)[:40])


@bad_ranges
def test_bad_ranges_are_refused_in_one_sentence(ranges, error, text):
    with pytest.raises(error, match=text) as caught:
        check_ranges(ranges)
    assert "\n" not in str(caught.value)


@bad_ranges
def test_nothing_is_uploaded_and_nothing_changes(accelerator, ranges, error, text):
    buffer = PrefixRangeBuffer(4, 2, accelerator.device)
    buffer.update({0: [(1, 2)]}, 4)
    runner = ModelRunner(4, 2, accelerator.device)
    metadata = {"layer": TritonAttentionMetadata(batch_of(4))}
    refusing = [
        lambda: compute_mm_prefix_range_tensor(ranges, 4, accelerator.device),
        lambda: buffer.update(ranges, 4),
        lambda: runner._set_mm_prefix_range_for_metadata(metadata, ranges),
    ]
    with debubble.record(accelerator) as timeline:
        for refuse in refusing:
            with pytest.raises(error, match=text):
                refuse()
    assert timeline.events == []
    assert buffer.tensor[0].tolist() == [[1, 2], [0, 0]]
    assert metadata["layer"].mm_prefix_range_tensor is NOT_COMPUTED


@pytest.mark.parametrize(
    "ranges",
    [
        None,
        {},
        {0: []},
        {3: [(0, 0)]},
        {0: [[1, 2]]},
        {0: [(0, 2**31 - 1)]},
        {np.int64(2): [(np.int32(1), np.int64(2))]},
    ],
)
def test_good_ranges_pass(ranges):
    check_ranges(ranges)


def test_the_host_does_no_work_span_by_span(accelerator):
    """The host executes the same number of Python instructions for 16 spans of a request as for 2:
    spans are checked and packed as arrays."""
    runner = ModelRunner(64, 16, accelerator.device)
    metadata = {"layer": TritonAttentionMetadata(batch_of(64))}

    def instructions(spans):
        ranges = {request: [(0, 3)] * spans for request in range(64)}
        update = partial(runner._set_mm_prefix_range_for_metadata, metadata, ranges)
        return instructions_of(update, "pinned_h2d")

    assert instructions(16) == instructions(2)


def test_a_step_is_checked_once(accelerator, monkeypatch):
    checked, are_valid = [], ranges_module._are_valid
    monkeypatch.setattr(
        ranges_module, "_are_valid", lambda ranges: checked.append(ranges) or are_valid(ranges)
    )
    ranges = {0: [(1, 4)]}
    runner = ModelRunner(4, 2, accelerator.device)
    runner._set_mm_prefix_range_for_metadata({"a": TritonAttentionMetadata(batch_of(4))}, ranges)
    assert checked == [ranges]


def test_numpy_integers_arrive_like_any_others(accelerator):
    ranges = {np.int64(1): [(np.int32(3), np.uint8(7))]}
    tensor = compute_mm_prefix_range_tensor(ranges, 2, accelerator.device)
    assert tensor.tolist() == [[[0, 0]], [[3, 7]]]


@pytest.mark.parametrize(
    ("spans", "positions", "expected"),
    [
        ([(2, 5)], range(0, 3), True),
        ([(2, 5)], range(0, 2), False),
        ([(2, 5)], range(5, 6), True),
        ([(2, 5)], range(6, 9), False),
        ([(4, 4)], range(0, 9), False),
        ([(0, 0)], range(0, 9), False),
        ([(0, 1)], range(0, 1), True),
        ([(2, 5)], range(3, 3), False),
        ([], range(0, 9), False),
    ],
)
def test_a_span_matters_when_it_holds_a_scheduled_position(spans, positions, expected):
    assert touches(spans, positions) is expected


def batch_of(num_requests):
    return SimpleNamespace(
        requests=range(num_requests),
        scheduled=tuple(range(0, 8) for _ in range(num_requests)),
        num_seqs=num_requests,
    )
