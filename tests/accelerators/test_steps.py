"""Named steps of a recording: which calls are of which step, on every accelerator."""

import pytest
import torch

import debubble
from debubble.contract.steps import named_step
from debubble.timeline import Timeline


def recorded(accelerator, tmp_path, *, saved):
    """Returns a recording of two named steps of two and three kernels, and a step without a
    name."""
    x = torch.ones(8, device=accelerator.device)
    with debubble.record(accelerator) as timeline:
        with named_step("two"):
            _ = x + 1, x * 2
        with named_step():
            _ = x - 1
        with named_step() as step:
            step.name = "three"
            _ = x + 1, x * 2, x - 3
    if not saved:
        return timeline
    timeline.save(tmp_path / "steps.json")
    return Timeline.load(tmp_path / "steps.json")


@pytest.mark.parametrize("saved", [False, True])
def test_each_launch_lies_in_its_step(accelerator, tmp_path, saved):
    timeline = recorded(accelerator, tmp_path, saved=saved)
    launches = [event for event in timeline.events if event.kind == "launch"]
    within = {
        step.name: sum(step.start <= event.start <= event.end <= step.end for event in launches)
        for step in timeline.steps
    }
    assert len(launches) == 6 and within == {"two": 2, "three": 3}


def test_without_a_recording_a_step_needs_no_name():
    with named_step() as step:
        assert not step.is_recorded


def test_a_step_that_raises_is_recorded(accelerator):
    with (
        debubble.record(accelerator) as timeline,
        pytest.raises(KeyError),
        named_step("broken"),
    ):
        raise KeyError
    assert [step.name for step in timeline.steps] == ["broken"]


def test_steps_move_with_the_beginning_of_a_timeline(accelerator, tmp_path):
    timeline = recorded(accelerator, tmp_path, saved=False)
    second = timeline.steps[1]
    middle = (second.start + second.end) / 2
    (step,) = timeline.since(middle).steps
    assert (step.name, step.start) == ("three", 0.0)
    assert step.end == pytest.approx(second.end - middle)
