"""A whole step with tables made in four ways: equal results, and what each way makes the host
do."""

from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import debubble
from solutions.gdn.model.config import GDNConfig
from solutions.gdn.step import MOST_TOKENS, VARIANTS, GDNBatch, GDNStep
from tests.common import claims

from .batches import KINDS, Requests
from .oracle import relative_error
from .reference_layer import ReferenceLayer

CONFIG = replace(GDNConfig.small(), num_v_heads=1, num_slots=24)
PREFILL = {
    # 24 layers have 11 kernels each: the norm before, three products, gates, convolution, three
    # of the chunked rule, the norm after it, the sum. Then 8 for each layer's tables, or for
    # the step's.
    "before": {"kernels": 456, "d2h": 24, "h2d_pageable": 48, "h2d_pinned": 1, "host_syncs": 72},
    "cached": {"kernels": 272, "d2h": 1, "h2d_pageable": 2, "h2d_pinned": 1, "host_syncs": 3},
    "after": {"kernels": 264, "d2h": 0, "h2d_pageable": 0, "h2d_pinned": 1, "host_syncs": 0},
    # Six kernels make all that the host would have uploaded.
    "on_device": {"kernels": 270, "d2h": 0, "h2d_pageable": 0, "h2d_pinned": 0, "host_syncs": 0},
}
"""The expected counts of a step of prompts through 24 layers, by variant."""
NEVER_WAITING = ("after", "on_device")


@pytest.fixture(scope="module")
def deep(accelerator):
    return GDNStep(CONFIG, accelerator.device)


@pytest.fixture(scope="module")
def shallow(accelerator):
    """Returns {variant: step} for a model of two layers, all with the same weights, after a first
    run."""
    config = replace(CONFIG, num_layers=2)
    steps = {variant: GDNStep(config, accelerator.device, variant) for variant in VARIANTS}
    # Compiling a kernel for the first time may make the host wait.
    for step in steps.values():
        step.run(step.schedule([2]))
    return steps


def batch_of(accelerator, requests, hidden=None):
    """Returns a batch of these requests. `hidden` is [T, hidden_size] on the host; random if it is
    None."""
    if hidden is None:
        hidden = torch.randn(requests.starts[-1], CONFIG.hidden_size).to(CONFIG.dtype)
    return GDNBatch(
        requests.common(accelerator),
        hidden.to(accelerator.device),
        **requests.speculation(accelerator),
    )


def fill_states(step, seed):
    """Fills all states with random numbers, as if other requests had left them."""
    generator = torch.Generator().manual_seed(seed)
    for state in step.states:
        for states in (state.conv_states, state.ssm_states):
            states.copy_(torch.randn(states.shape, generator=generator))


def states_of(step):
    return [t.cpu() for state in step.states for t in (state.conv_states, state.ssm_states)]


def expect_the_same_of_all(accelerator, shallow, batch):
    """Runs the batch in all variants, and checks that outputs and states are equal, bit by bit.
    Returns the number of pinned uploads of each variant that never waits."""
    results, uploads = {}, {}
    for variant, step in shallow.items():
        fill_states(step, seed=1)
        never_waits = variant in NEVER_WAITING
        with (
            debubble.record(accelerator) as timeline,
            debubble.no_host_syncs() if never_waits else nullcontext(),
        ):
            output = step.run(batch)
        assert timeline.hazards == []
        results[variant] = [output.cpu(), *states_of(step)]
        counts = timeline.counts()
        if never_waits:
            assert counts["d2h"] == counts["host_syncs"] == counts["h2d_pageable"] == 0
            uploads[variant] = counts["h2d_pinned"]
    right = results["before"]
    assert right[0].isfinite().all()
    for found in results.values():
        assert all(torch.equal(a, b) for a, b in zip(found, right, strict=True))
    return uploads


def test_what_24_layers_make_the_host_do(accelerator, deep, only_launched):
    batch = deep.schedule([5, 3])
    for variant in VARIANTS:
        deep.use(variant)
        if not accelerator.modelled:
            deep.run(batch)  # A process's first products use other kernels than later ones.
        with debubble.record(accelerator) as timeline:
            deep.run(batch)
        assert timeline.hazards == []
        if accelerator.pin_memory:
            counts = timeline.counts()
            assert {name: counts[name] for name in PREFILL[variant]} == PREFILL[variant], variant


UPLOADS = {
    "prompts": (Requests.of([9, 66]), 1),
    "prompts that go on": (Requests.of([65, 1, 3], computed=[7, 0, 64], padding=2), 1),
    "decodes": (Requests.of([1, 1], padding=2), 0),
    "decodes and prompts": (Requests.of([1, 1, 5], padding=1), 1),
    "speculative": (Requests.of([3, 1], drafts=[2, 0], padding=1), 0),
    "speculative and all others": (Requests.of([3, 1, 4], drafts=[2, -1, -1], padding=1), 1),
    "nobody": (Requests.of([]), 0),
    "padding": (Requests.of([], padding=2), 0),
}


@pytest.mark.deep(4)
@pytest.mark.parametrize("kind", UPLOADS)
def test_every_kind_of_batch_in_all_variants(accelerator, shallow, kind):
    requests, uploads = UPLOADS[kind]
    found = expect_the_same_of_all(accelerator, shallow, batch_of(accelerator, requests))
    if accelerator.pin_memory:
        assert found == {"after": uploads, "on_device": 0}


@st.composite
def few_requests(draw):
    """Draws Requests: up to three of all kinds in any order, with few tokens, so that sim is quick,
    then padding."""
    query_lens, computed, drafts = [], [], []
    for kind in draw(st.lists(st.sampled_from(["one", "prompt", "speculative"]), max_size=3)):
        drafts.append(draw(st.integers(0, 2)) if kind == "speculative" else -1)
        length = draw(st.sampled_from([2, 9, 66])) if kind == "prompt" else 1 + max(drafts[-1], 0)
        query_lens.append(length)
        computed.append(6 if kind == "speculative" else draw(st.sampled_from([0, 6])))
    padding = draw(st.integers(0, 2))
    return Requests.of(query_lens, computed, drafts=drafts, padding=padding)


@given(requests=few_requests(), padding_rows=st.sampled_from([0, 3]))
@settings(max_examples=3)
def test_any_batch_in_all_variants(accelerator, shallow, requests, padding_rows):
    hidden = torch.randn(requests.starts[-1] + padding_rows, CONFIG.hidden_size)
    batch = batch_of(accelerator, requests, hidden.to(CONFIG.dtype))
    found = expect_the_same_of_all(accelerator, shallow, batch)
    assert found["after"] <= accelerator.pin_memory
    assert found["on_device"] == 0


@pytest.mark.gpu
@pytest.mark.parametrize("kind", KINDS)
def test_larger_batches_in_all_variants(accelerator, shallow, kind):
    requests = KINDS[kind].padded(1)
    expect_the_same_of_all(accelerator, shallow, batch_of(accelerator, requests))


class Served:
    """Sequences that a model serves in steps, each compared with the same model run on whole
    sequences."""

    def __init__(self, accelerator, step, lengths):
        self.accelerator, self.step = accelerator, step
        self.hidden = [torch.randn(length, CONFIG.hidden_size) for length in lengths]
        self.right = [whole(step.model, hidden) for hidden in self.hidden]
        self.done = [0] * len(lengths)
        self.accepted = [1] * len(lengths)

    def take(self, *lengths, drafts=()):
        """Runs a step with the next `lengths[i]` tokens of each sequence i, and checks its outputs.
        For sequences in `drafts`, all tokens but the first are drafts, and all are accepted."""
        served = [sequence for sequence, length in enumerate(lengths) if length]
        served.sort(key=lambda sequence: lengths[sequence] > 1)
        requests = Requests.of(
            [lengths[sequence] for sequence in served],
            [self.done[sequence] for sequence in served],
            [[4 * sequence + column for column in range(4)] for sequence in served],
            [lengths[sequence] - 1 if sequence in drafts else -1 for sequence in served],
        )
        requests = replace(requests, accepted=[self.accepted[sequence] for sequence in served])
        rows = [(s, slice(self.done[s], self.done[s] + lengths[s])) for s in served]
        hidden = torch.cat([self.hidden[sequence][row] for sequence, row in rows])
        output = self.step.run(batch_of(self.accelerator, requests, hidden))
        right = torch.cat([self.right[sequence][row] for sequence, row in rows])
        assert relative_error(output, right) < 1e-4
        for sequence in served:
            self.done[sequence] += lengths[sequence]
            self.accepted[sequence] = lengths[sequence] if sequence in drafts else 1


def whole(model, hidden):
    """Returns the hidden states after the last layer, [T, hidden_size], of one sequence from its
    first token on."""
    for layer, weight in zip(model.layers, model.norm_weights.cpu(), strict=True):
        normed = F.rms_norm(hidden, hidden.shape[1:], weight, CONFIG.norm_eps)
        hidden = hidden + ReferenceLayer(layer).run(normed)[0]
    return hidden


@pytest.mark.parametrize("variant", ["after", "on_device"])
def test_steps_of_all_kinds_give_what_the_whole_sequences_give(accelerator, variant):
    config = replace(CONFIG, num_layers=2, dtype=torch.float32)
    served = Served(
        accelerator, GDNStep(config, accelerator.device, variant), lengths=[72, 13, 9, 3]
    )
    served.take(66, 4)
    served.take(3, 1, 5)
    served.take(1, 1, 1)
    served.take(1, 3, 1, 3, drafts=[1])
    served.take(0, 4, 2, drafts=[1, 2])
    served.take(1, drafts=[0])
    assert served.done == [72, 13, 9, 3]


def test_a_step_goes_on_from_what_another_variant_left(accelerator, shallow):
    step, outputs = shallow["after"], []
    prompts, next_ones = step.schedule([3, 9]), step.schedule([1, 4], computed=[3, 9])
    for variants in (("before", "on_device"), ("after", "cached")):
        for variant, batch in zip(variants, (prompts, next_ones), strict=True):
            step.use(variant)
            output = step.run(batch)
        outputs.append(output.cpu())
    step.use("after")
    assert torch.equal(*outputs)


@pytest.mark.parametrize("num_slots", [64, 2048])
def test_the_largest_step_finds_room_for_its_upload(accelerator, num_slots):
    """A build for the largest step fits into the upload buffer: MOST_TOKENS tokens of both kinds,
    in as many chunks as the requests can have."""
    config = replace(CONFIG, num_layers=1, num_slots=num_slots)
    step = GDNStep(config, accelerator.device)
    others = num_slots - 1
    shortest = (MOST_TOKENS - 2) // others
    lengths = [2, *[shortest] * (others - 1), MOST_TOKENS - 2 - shortest * (others - 1)]
    requests = Requests.of(lengths, drafts=[1, *[-1] * others])
    metadata = step.builder.build(requests.common(accelerator), **requests.speculation(accelerator))
    assert metadata.num_actual_tokens == MOST_TOKENS
    assert len(metadata.non_spec_token_indices) == MOST_TOKENS - 2


@pytest.mark.parametrize("variant", ["before", "cached"])
def test_as_it_was_a_step_is_refused_where_syncs_are(shallow, variant):
    step = shallow[variant]
    batch = step.schedule([3])
    with pytest.raises(debubble.HostSyncError, match=r"before\.py"), debubble.no_host_syncs():
        step.run(batch)


def test_steps_queued_behind_a_busy_device_are_all_right(accelerator, shallow):
    """Outputs are right for more steps than can be staged at once, queued while the device is
    busy."""
    batches = [shallow["after"].schedule(lengths) for lengths in ([3], [5, 2], [1, 9], [4, 1, 1])]
    right = [shallow["before"].run(batch).cpu() for batch in batches]
    found = claims.overlapped(accelerator, shallow["after"].run, batches)
    assert all(torch.equal(a.cpu(), b) for a, b in zip(found, right, strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_host_returns_while_the_device_is_busy_or_waits_as_it_did(accelerator, deep, variant):
    deep.use(variant)
    batch = deep.schedule([5, 3])
    expect = claims.expect_host_returns if variant in NEVER_WAITING else claims.expect_host_waits
    expect(accelerator, lambda: deep.run(batch))


def test_what_cannot_be_scheduled_is_refused(shallow):
    step = shallow["after"]
    with pytest.raises(ValueError, match="25 requests for 24 slots: each needs one"):
        step.schedule([1] * 25)
    with pytest.raises(ValueError, match=f"{MOST_TOKENS + 1} tokens in one step: it takes"):
        step.schedule([MOST_TOKENS, 1])


def test_an_unknown_variant_is_refused(shallow):
    with pytest.raises(ValueError, match="'later': choose one of before, cached, after, on_device"):
        shallow["after"].use("later")
