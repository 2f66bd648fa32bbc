"""A whole step with all eight sites: before the change, each by itself, and in one upload."""

import os
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

import debubble
from solutions.sync_free.model.config import StepConfig
from solutions.sync_free.model.model import ConvModel
from solutions.sync_free.model.separate_sites import SITES
from solutions.sync_free.model.step_inputs import plan_inputs
from solutions.sync_free.model.workload import Workload
from solutions.sync_free.step import DecodeStep
from tests.common import claims
from tests.common.refusals import expect_refused
from tests.gate import LONG_MS, closed_gate

CONFIG = StepConfig.small()
STEPS = 6
VARIANTS = {"before": (), "separate": SITES, "packed": None}


@pytest.fixture(scope="module")
def model(accelerator):
    return ConvModel(CONFIG, accelerator.device)


@pytest.fixture(scope="module")
def scheduled():
    return list(Workload(CONFIG).steps(STEPS))


def outputs_of(model, scheduled, sites):
    step = DecodeStep(model, sites)
    outputs = [step.run(each) for each in scheduled]
    return [(o.sampled.tolist(), *(t.cpu().numpy() for t in o.logprobs)) for o in outputs]


def recorded_step(accelerator, model, scheduled, sites, gate_ms):
    """Records the third step with these sites behind a gate that opens by itself after `gate_ms`,
    or when the host is done. Returns (timeline, True if the gate was still closed when the host was
    done)."""
    step = DecodeStep(model, sites)
    for each in scheduled[:2]:
        step.run(each)
    with (
        claims.answers_in_time(accelerator),
        debubble.record(accelerator) as timeline,
        closed_gate(accelerator, gate_ms, modelled_ms=2.0) as gate,
    ):
        step.run(scheduled[2])
        is_closed = gate.closed
    assert not timeline.hazards
    return timeline, is_closed


def step_without_waits(accelerator, model, scheduled, variant):
    """Checks that a step of this variant waits for nothing, not even for the other ranks, whose
    answer must not queue behind the model. Returns its timeline."""
    timeline, is_closed = recorded_step(accelerator, model, scheduled, VARIANTS[variant], LONG_MS)
    claims.expect_no_wait_in(timeline)
    assert is_closed, "the host waited for what was queued before the step"
    return timeline


def waits_of_one_step(accelerator, model, scheduled, sites):
    timeline, _ = recorded_step(accelerator, model, scheduled, sites, gate_ms=40.0)
    return timeline.counts()["host_syncs"]


@pytest.mark.parametrize("variant", ["separate", "packed"])
def test_every_step_gives_what_it_gave_before(model, scheduled, variant):
    before = outputs_of(model, scheduled, VARIANTS["before"])
    now = outputs_of(model, scheduled, VARIANTS[variant])
    for (sampled_then, ids_then, logprobs_then, ranks_then), (sampled, ids, logprobs, ranks) in zip(
        before, now, strict=True
    ):
        assert sampled == sampled_then
        np.testing.assert_array_equal(ids, ids_then)
        np.testing.assert_array_equal(ranks, ranks_then)
        np.testing.assert_allclose(logprobs, logprobs_then, atol=1e-5)


def test_what_is_sampled_comes_first_in_its_row_of_logprobs(model, scheduled):
    output = DecodeStep(model).run(scheduled[0])
    assert torch.equal(output.logprobs.logprob_token_ids[:, 0], output.sampled.int())


def test_a_model_is_the_same_each_time(accelerator, model):
    again = ConvModel(CONFIG, accelerator.device)
    assert torch.equal(again.embedding.cpu(), model.embedding.cpu())


def test_only_rows_of_another_request_are_counted_anew(scheduled):
    last, step = scheduled[:2]
    row_of = {name: row for row, name in enumerate(last.names)}
    stayed = [row_of.get(name) == row for row, name in enumerate(step.names)]
    assert any(stayed)
    inputs = plan_inputs(step, row_of, CONFIG.vocab_size)
    assert inputs.recounted.tolist() == [row for row, it in enumerate(stayed) if not it]


def test_a_prepared_step_computes_nothing_when_it_runs():
    (step,) = Workload(CONFIG).steps(1)
    assert {"bad_words", "asked_ids"} <= vars(step).keys()


def test_one_pinned_upload_and_not_one_wait(accelerator, model, scheduled):
    timeline = step_without_waits(accelerator, model, scheduled, "packed")
    assert timeline.counts()["h2d_pinned"] == accelerator.pin_memory


def test_each_site_by_itself_makes_one_upload_or_none(accelerator, model, scheduled):
    timeline = step_without_waits(accelerator, model, scheduled, "separate")
    # These are ngram, penalties, token_types, causal_conv1d, bad_words, logprobs, and the
    # step's inputs.
    assert timeline.counts()["h2d_pinned"] <= 7


def test_before_it_waited_at_every_site(accelerator, model, scheduled):
    """Each site makes the host wait before its change, and the waits of a step with all sites are
    the sum of theirs."""
    waits = {
        site: waits_of_one_step(accelerator, model, scheduled, [s for s in SITES if s != site])
        for site in SITES
    }
    assert all(waits.values()), waits
    everywhere = waits_of_one_step(accelerator, model, scheduled, VARIANTS["before"])
    assert everywhere == sum(waits.values())


def test_a_step_may_not_wait_and_does_not(accelerator, model, scheduled):
    step = DecodeStep(model)
    for each in scheduled[:3]:
        step.run(each)
    accelerator.synchronize()
    with (
        claims.answers_in_time(accelerator),
        closed_gate(accelerator, modelled_ms=2.0) as gate,
        debubble.no_host_syncs(),
    ):
        step.run(scheduled[3])
        assert gate.closed, "the host waited for what was queued before the step"


@pytest.mark.gpu
def test_the_host_returns_while_the_device_is_busy(accelerator, model):
    step, scheduled = DecodeStep(model), Workload(CONFIG).steps(100)
    claims.expect_host_returns(accelerator, lambda: step.run(next(scheduled)))


def test_steps_queued_behind_a_busy_device_are_all_right(accelerator, model, scheduled):
    expected = outputs_of(model, scheduled, VARIANTS["before"])
    step = DecodeStep(model)
    outputs = claims.overlapped(accelerator, lambda each: step.run(each), scheduled, warm_up=False)
    for output, (sampled, ids, logprobs, ranks) in zip(outputs, expected, strict=True):
        assert output.sampled.tolist() == sampled
        np.testing.assert_array_equal(output.logprobs.logprob_token_ids.cpu(), ids)
        np.testing.assert_allclose(output.logprobs.logprobs.cpu(), logprobs, atol=1e-5)
        np.testing.assert_array_equal(output.logprobs.selected_token_ranks.cpu(), ranks)


WRONG = {
    "token id 512": lambda r: replace(r, bad_words=[[512]]),
    "token -1": lambda r: replace(r, asked_ids=[3, -1]),
}


@pytest.mark.parametrize("message", WRONG)
def test_what_a_request_may_not_ask_for_changes_nothing(accelerator, model, message):
    """A request with a wrong argument raises ValueError at the last site, and no table has changed,
    not even the first site's. The next step works."""
    step, (first, second) = DecodeStep(model), Workload(CONFIG).steps(2)
    step.run(first)
    requests = [*second.requests[:-1], WRONG[message](second.requests[-1])]
    refused = replace(second, requests=requests)
    tables = [value for value in vars(step.tables).values() if isinstance(value, torch.Tensor)]
    row_of = step.tables.row_of
    expect_refused(
        accelerator, lambda: step.run(refused), message, (*tables, *step.tables.conv_states)
    )
    assert step.tables.row_of == row_of
    assert step.run(second).sampled.shape == (CONFIG.num_requests,)


WITHOUT_PINNING = """
import debubble
from solutions.sync_free.model.config import StepConfig
from solutions.sync_free.model.model import ConvModel
from solutions.sync_free.step import DecodeStep
from solutions.sync_free.model.workload import Workload

gpu, config = debubble.accelerator("sim"), StepConfig.small()
model, scheduled = ConvModel(config, gpu.device), list(Workload(config).steps(3))
before, now = DecodeStep(model, []), DecodeStep(model)
with debubble.record(gpu) as timeline:
    for each in scheduled:
        assert before.run(each).sampled.tolist() == now.run(each).sampled.tolist()
print(gpu.pin_memory, timeline.counts()["h2d_pinned"], timeline.hazards)
"""


@pytest.mark.sim
def test_where_nothing_can_be_pinned_every_step_is_still_right():
    environment = os.environ | {"DEBUBBLE_PINNING": "off", "DEBUBBLE_DEVICE": "sim"}
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_PINNING], capture_output=True, text=True, env=environment
    )
    assert run.stdout == "False 0 []\n", run.stderr[-3000:]


def test_a_site_that_does_not_exist_is_refused(model):
    with pytest.raises(ValueError, match="site 'bad_wrds' is unknown: choose from ngram"):
        DecodeStep(model, ["bad_wrds"])


def test_requests_end_arrive_and_move(scheduled):
    """The workload of these tests has requests that end, arrive and move to other rows, without
    which the sites would not matter."""
    rows = [dict(zip(each.names, range(each.num_requests), strict=True)) for each in scheduled]
    moved = [
        name
        for then, now in pairwise(rows)
        for name in then.keys() & now.keys()
        if then[name] != now[name]
    ]
    assert moved
    assert all(each.arrived for each in scheduled)
    assert all(
        len(set(each.cache_indices.tolist())) == CONFIG.num_requests + 1 for each in scheduled
    )
