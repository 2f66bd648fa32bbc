"""The inputs that tests of katas make, and their reports on pinned memory, polling and traffic."""

import pytest
import torch

from debubble.exercises import (
    DeviceTraffic,
    KataFailure,
    expect,
    expect_equal,
    in_a_row,
    left_as_they_were,
    no_pinned_memory,
    part_of,
    pinned_memory,
    same_objects,
)
from debubble.exercises.teaching.polling import polling_is_refused


def said(failure) -> str:
    return " ".join(str(failure.value).split())


def test_a_result_that_is_not_contiguous_is_told_so(accelerator):
    table = torch.arange(6, device=accelerator.device).view(2, 3)
    right = table.t().contiguous()
    with pytest.raises(KataFailure) as failure:
        expect_equal(table.t(), right, call="f()")
    assert "f() to be contiguous: strides (2, 1) for the shape [3, 2]" in said(failure)
    assert "and strides (1, 3)" in said(failure)
    expect_equal(table.t(), right, value="a view of the test's")
    expect_equal(table.t(), right, call="f()", contiguous=False)
    with pytest.raises(KataFailure):
        expect_equal([table.t()], [right], value="the tables", contiguous=True)


def test_nan_equals_nan():
    numbers = torch.tensor([1.0, float("nan")])
    expect_equal(numbers, numbers.clone(), value="the numbers")


def test_results_are_copied_behind_their_calls(accelerator):
    table = torch.zeros(2, device=accelerator.device)
    read, timeline = in_a_row(accelerator, lambda step: {"sum": (table.add_(step), None)}, 5)
    assert [int(of_step["sum"][0][0]) for of_step in read] == [0, 1, 3, 6, 10]
    assert timeline.counts()["host_syncs"] == 0


def test_an_input_that_was_changed_for_a_while_is_told(accelerator):
    starts = torch.arange(4, device=accelerator.device)
    with pytest.raises(KataFailure) as failure, left_as_they_were(starts=[starts]):
        starts[1:].add_(1)
        starts[1:].sub_(1)
    assert "wrote to it, and then what was there before" in said(failure)
    with left_as_they_were(starts=[starts]):
        starts.add(1)


def test_a_ring_without_events_is_caught_however_deep(accelerator):
    if not accelerator.pin_memory:
        pytest.skip("nothing can be in flight")
    ring = [torch.zeros(4, dtype=torch.int64, pin_memory=True) for _ in range(64)]

    def upload(step):
        return ring[step % 64].fill_(step).to(accelerator.device, non_blocking=True)

    read, timeline = in_a_row(accelerator, upload)
    assert [int(ids[0]) for ids in read] != list(range(len(read)))
    if accelerator.modelled:
        with pytest.raises(KataFailure):
            expect(timeline).no_hazards()


def test_steps_come_in_the_same_objects():
    steps = [({0: [1]}, [2], torch.tensor([3]), 4), ({5: []}, [6, 7], torch.tensor([8]), 9)]
    seen = [(arguments, [*map(id, arguments)]) for arguments in same_objects(steps)]
    (first, ids), (second, later_ids) = seen
    assert ids[:3] == later_ids[:3]
    assert second[:2] == ({5: []}, [6, 7]) and int(second[2]) == 8 and second[3] == 9
    assert first[0] is second[0] and steps[0][0] == {0: [1]}


def test_inputs_that_were_changed_are_named(accelerator):
    lists, table = {0: [1]}, torch.zeros(2, device=accelerator.device)
    with left_as_they_were(lists=lists, table=table):
        table + 1
    with pytest.raises(KataFailure) as failure, left_as_they_were(lists=lists, table=table):
        lists[0].append(2)
    assert "Expected `lists`, which belongs to the caller" in said(failure)
    with pytest.raises(KataFailure), left_as_they_were(table=table):
        table += 1


def test_a_part_lies_between_other_values(accelerator):
    part, whole = part_of(torch.ones(2, 3), accelerator.device)
    assert not part.is_contiguous() and part.shape == (2, 3)
    part.zero_()
    assert whole.tolist() == [[77, 0, 0, 0, 77, 77]] * 2


@pytest.mark.parametrize("marker", ["event", "stream"])
def test_who_asks_in_a_loop_is_stopped(accelerator, marker):
    accelerator.sleep(5.0)
    event = accelerator.event()
    event.record()
    asked = event if marker == "event" else accelerator.current_stream()
    with polling_is_refused(accelerator), pytest.raises(KataFailure) as failure:
        while not asked.query():
            pass
    assert "asks in a loop: 17 times in a row" in said(failure)
    assert "while not asked.query()" in said(failure)


def test_who_asks_once_a_step_is_not(accelerator):
    accelerator.sleep(20.0)
    first = accelerator.event()
    first.record()
    with polling_is_refused(accelerator):
        for _ in range(40):
            accelerator.event().record()
            first.query()


def test_memory_that_is_pinned_is_noted(accelerator):
    if not accelerator.pin_memory:
        pytest.skip("nothing is pinned here")
    with pinned_memory() as pinned:
        torch.tensor([1, 2], pin_memory=True)
        torch.zeros(3).pin_memory()
        torch.zeros(3, pin_memory=False)
    assert [memory.nbytes for memory in pinned] == [16, 12]
    assert "pin_memory=True" in pinned[0].source.text


def test_who_pins_where_nothing_can_be_pinned_is_told(accelerator):
    with no_pinned_memory(accelerator):
        torch.zeros(3, pin_memory=accelerator.pin_memory)
        for pin in (lambda: torch.empty(3, pin_memory=True), lambda: torch.zeros(3).pin_memory()):
            with pytest.raises(KataFailure) as failure:
                pin()
    assert "where `accelerator.pin_memory` is False" in said(failure)


def written_by(call, table) -> int:
    with DeviceTraffic() as traffic:
        call(table)
    return traffic.nbytes


def test_an_operator_writes_its_result_or_what_its_indices_name(accelerator):
    table = torch.zeros(64, 8, device=accelerator.device)
    rows = torch.tensor([3, 1]).to(accelerator.device)
    mask = torch.zeros(64, dtype=torch.bool).to(accelerator.device)
    ones = torch.ones(2, 8, device=accelerator.device)
    two_rows, whole = 2 * 8 * 4, 64 * 8 * 4
    assert written_by(lambda t: t.index_fill_(0, rows, 0), table) == two_rows
    assert written_by(lambda t: t.index_select(0, rows), table) == two_rows
    assert written_by(lambda t: t.index_copy_(0, rows, ones), table) == two_rows
    assert written_by(lambda t: t.__setitem__(rows, ones), table) == two_rows
    assert written_by(lambda t: t[3:5].zero_(), table) == two_rows
    assert written_by(lambda t: t.view(-1), table) == 0
    assert written_by(lambda t: t.mul_(2), table) == whole
    assert written_by(lambda t: t.masked_fill_(mask[:, None], 0), table) == whole
    assert written_by(lambda t: t.clone(), table) == whole
