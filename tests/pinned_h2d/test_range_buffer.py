"""The persistent buffer: one address for all steps, and nothing left of an earlier step."""

import pytest

import debubble
from solutions.pinned_h2d import PrefixRangeBuffer


def test_a_step_without_ranges_is_none_and_uploads_nothing(accelerator):
    buffer = PrefixRangeBuffer(8, 4, accelerator.device)
    buffer.update({1: [(3, 4)]}, 2)
    with debubble.record(accelerator) as timeline:
        assert buffer.update(None, 8) is None
    assert timeline.events == []


def test_for_graphs_a_step_without_ranges_is_zeros_and_uploads_them_once(accelerator):
    buffer = PrefixRangeBuffer(8, 4, accelerator.device, for_graphs=True)
    buffer.update({1: [(3, 4)]}, 2)
    with debubble.record(accelerator) as timeline:
        tensors = [buffer.update(None, 8) for _ in range(3)]
    assert timeline.counts()["h2d_pinned"] == accelerator.pin_memory
    assert {tensor.data_ptr() for tensor in tensors} == {buffer.tensor.data_ptr()}
    assert not buffer.tensor.any()


@pytest.mark.parametrize("ranges", [None, {0: [(3, 4)]}], ids=["no ranges", "a range"])
def test_fewer_than_no_sequences_are_refused_and_nothing_changes(accelerator, ranges):
    buffer = PrefixRangeBuffer(4, 2, accelerator.device, for_graphs=True)
    buffer.update({0: [(1, 2)]}, 4)
    with pytest.raises(ValueError, match="-1 sequences: there are at least 0"):
        buffer.update(ranges, -1)
    assert buffer.tensor[0].tolist() == [[1, 2], [0, 0]]


def test_too_many_sequences_or_ranges_are_refused_and_nothing_changes(accelerator):
    buffer = PrefixRangeBuffer(4, 2, accelerator.device)
    buffer.update({0: [(1, 2)]}, 4)
    with debubble.record(accelerator) as timeline:
        with pytest.raises(ValueError, match="5 sequences: this buffer holds 4"):
            buffer.update({0: [(1, 2)]}, 5)
        with pytest.raises(ValueError, match="request 3 has 3 ranges: this buffer holds 2"):
            buffer.update({3: [(1, 2)] * 3}, 4)
    assert timeline.events == []
    assert buffer.tensor[0].tolist() == [[1, 2], [0, 0]]
