"""Tests of the kata `keep_it_on_the_device`."""

import torch

import debubble
from debubble.exercises import (
    Common,
    Step,
    expect,
    expect_equal,
    left_as_they_were,
)

WHY = (
    "Each read makes the host wait until the device has done all that was queued before it. "
    "Meanwhile the host queues no new work, so the device runs dry: a bubble for every read. A sum "
    "on the device needs one read, however many losses there are."
)
COPIED_ALONE = (
    "The host waits for none of these copies, so it may read a loss before its copy is done: only "
    "an event, or a copy that blocks, says that it is. Each copy is also a command for the driver. "
    "A sum on the device needs one copy, however many losses there are."
)


def likely(mean, expected):
    if isinstance(mean, torch.Tensor):
        return "The caller wants a number: take it out of the tensor with `.item()`, once."
    if mean != mean:
        return (
            "Was a number read before its copy was done? A copy to the host that does not block "
            "has to be waited for."
        )
    return ""


def losses_on(accelerator, count):
    return list(torch.linspace(0.5, 2.5, count, device=accelerator.device))


def test_it_returns_the_mean(kata, accelerator):
    mean = kata.mean_loss(losses_on(accelerator, 16))
    call = "mean_loss(16 losses from 0.5 to 2.5)"
    expect_equal(mean, 1.5, call=call, likely=likely, tolerance=1e-5)


def test_one_loss_is_its_own_mean(kata, accelerator):
    mean = kata.mean_loss(losses_on(accelerator, 1))
    expect_equal(mean, 0.5, call="mean_loss(one loss of 0.5)", likely=likely, tolerance=1e-5)


def test_it_reads_the_device_once(kata, accelerator):
    losses = losses_on(accelerator, 16)
    with debubble.record(accelerator) as timeline:
        kata.mean_loss(losses)
    waits = timeline.counts()["host_syncs"] > 1
    expect(timeline).at_most(host_syncs=1, d2h=1, why=WHY if waits else COPIED_ALONE)
    expect(timeline).no_hazards()


def test_the_losses_stay_as_they_were(kata, accelerator):
    losses = losses_on(accelerator, 4)
    with left_as_they_were(losses=losses):
        kata.mean_loss(losses)


def common_steps(accelerator):
    losses = {count: losses_on(accelerator, count) for count in (16, 1, 300)}
    means = {16: 1.5, 1: 0.5, 300: 1.5}
    steps = [Step(f"mean_loss({n} losses)", (losses[n],), mean) for n, mean in means.items()]
    for shown, loss in (("2**40", 2.0**40), ("-3", -3.0)):
        three = [torch.full((), loss, device=accelerator.device)] * 3
        steps.append(Step(f"mean_loss(3 losses of {shown})", (three,), loss))
    return steps


COMMON = Common(
    make=lambda kata, accelerator: kata.mean_loss,
    steps=common_steps,
    sized=lambda accelerator, n: Step("", (losses_on(accelerator, n),), None),
    likely=likely,
    tolerance=1e-4,
)
