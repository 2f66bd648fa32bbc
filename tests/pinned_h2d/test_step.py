"""The whole step, before and after the change: equal results, and what each makes the host do."""

from dataclasses import replace

import pytest
import torch

import debubble
from solutions.pinned_h2d import Engine, PagedRequests, StepConfig, TritonAttentionMetadata
from solutions.pinned_h2d.model.model import PrefixDecoderLayer

LAYERS, REQUESTS = 48, 16


@pytest.fixture(scope="module")
def engine(accelerator):
    return Engine(StepConfig.small(), accelerator.device)


def record(accelerator, engine, variant, kind):
    engine.use(variant)
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(1.0)
        output = getattr(engine, kind)()
    return output.float().cpu(), timeline


def test_48_layers_of_16_requests(accelerator, engine, only_launched):
    for variant in ("before", "after"):
        _, timeline = record(accelerator, engine, variant, "prefill")
        counts = timeline.counts()
        assert timeline.hazards == []
        if variant == "before":
            assert counts["h2d_pageable"] == LAYERS * REQUESTS == 768
            assert counts["host_syncs"] == 768
            assert counts["h2d_pinned"] == 0
        else:
            assert counts["h2d_pinned"] == accelerator.pin_memory
            assert counts["h2d_pageable"] == (not accelerator.pin_memory)
            assert counts["host_syncs"] == 0


def test_a_decode_step_uploads_nothing_any_more(accelerator, engine, only_launched):
    _, timeline = record(accelerator, engine, "after", "decode")
    counts = timeline.counts()
    assert counts["h2d_pinned"] == counts["h2d_pageable"] == counts["host_syncs"] == 0


@pytest.fixture(scope="module")
def shallow(accelerator):
    return Engine(replace(StepConfig.small(), num_layers=2), accelerator.device)


def test_prefill_then_decode_agree_with_the_code_as_it_was(accelerator, shallow):
    then = [record(accelerator, shallow, "before", kind)[0] for kind in ("prefill", "decode")]
    now = [record(accelerator, shallow, "after", kind)[0] for kind in ("prefill", "decode")]
    assert all(output.isfinite().all() for output in then)
    assert all(torch.equal(a, b) for a, b in zip(then, now, strict=True))


def test_a_layer_of_first_tokens_against_its_definition(accelerator, shallow):
    """A layer's output for requests of one token equals its definition in double precision. Such a
    token sees no other token, and attends to its own value."""
    requests = PagedRequests(3, 1)
    batch = requests.batch([range(1)] * 3, accelerator.device)
    config = replace(shallow.config, dtype=torch.float32)
    layer = PrefixDecoderLayer(config, 0, requests.num_blocks, accelerator.device)
    hidden = torch.randn(3, config.hidden_size, generator=torch.Generator().manual_seed(1))
    metadata = TritonAttentionMetadata(batch, mm_prefix_range_tensor=None)
    found = layer.forward(hidden.to(accelerator.device), metadata).cpu()

    weights = (layer.qkv, layer.out, layer.gate_up, layer.down)
    qkv, out, gate_up, down = (weight.cpu().double() for weight in weights)
    right = hidden.double()
    length = lambda rows: rows.square().sum(1, keepdim=True).sqrt()
    heads = (right / length(right) @ qkv.t()).view(3, -1, config.head_size)
    value = heads[:, config.num_heads + config.num_kv_heads :]
    value = value.repeat_interleave(config.num_heads // config.num_kv_heads, 1)
    right = right + value.flatten(1) @ out.t()
    gate, up = (right / length(right) @ gate_up.t()).chunk(2, 1)
    right = right + (torch.nn.functional.gelu(gate, approximate="tanh") * up) @ down.t()
    torch.testing.assert_close(found.double(), right, rtol=1e-4, atol=1e-4)


def test_the_ranges_reach_the_attention(accelerator, shallow):
    with_images, _ = record(accelerator, shallow, "after", "prefill")
    ranges, shallow.ranges = shallow.ranges, None
    without, _ = record(accelerator, shallow, "after", "prefill")
    shallow.ranges = ranges
    assert (with_images - without).abs().max() > 0.1


def test_no_step_of_now_makes_the_host_wait(accelerator, shallow):
    shallow.use("after")
    steps = (shallow.prefill, shallow.decode)
    for step in steps:
        step()  # Compiling a kernel for the first time may make the host wait.
    with debubble.no_host_syncs():
        for step in steps:
            step()


def test_the_step_as_it_was_is_refused_where_syncs_are(accelerator, shallow):
    shallow.use("before")
    with pytest.raises(debubble.HostSyncError, match=r"before\.py"), debubble.no_host_syncs():
        shallow.prefill()


def test_an_unknown_variant_is_refused(accelerator, shallow):
    with pytest.raises(ValueError, match="variant 'later': choose 'before' or 'after'"):
        shallow.use("later")


def test_images_that_do_not_fit_are_refused():
    config = replace(StepConfig.small(), images_per_request=3)
    with pytest.raises(ValueError, match="3 images of 8 tokens do not fit into a prompt of 16"):
        config.ranges()


def test_images_are_spread_over_the_prompt():
    config = replace(StepConfig.small(), images_per_request=2, image_tokens=4, num_requests=1)
    assert config.ranges() == {0: [(2, 5), (10, 13)]}
