"""The warmed-up server gives the same results as the first one, and its host does less."""

from itertools import pairwise

import pytest
import torch

import debubble
from solutions.host_bound import (
    FusedServer,
    SharedBuilder,
    StepServer,
    before,
    bucket_for,
    buckets_up_to,
)
from solutions.host_bound.batch import decode_batch, mixed_batch
from solutions.host_bound.buckets import growing_by
from solutions.host_bound.measure import engine_steps
from solutions.host_bound.measure.serving import serve
from solutions.host_bound.pictures.buckets_picture import BucketsPicture

WIDTH, GROUPS, LAYERS, SLOTS = 16, 3, 4, 2048
MIXED = ([1] * 7, [5, 1, 1, 9], [16, 16], [1])


@pytest.fixture(scope="module")
def servers(accelerator):
    shape = LAYERS, WIDTH, GROUPS, SLOTS
    return before.StepServer(*shape), StepServer(*shape, [1, 2, 4, 8, 16, 32])


def hidden(accelerator, batch):
    torch.manual_seed(0)
    return torch.randn(batch.num_tokens, WIDTH).to(accelerator.device)


@pytest.mark.parametrize("lengths", MIXED, ids=str)
def test_metadata_of_all_groups_at_once_is_that_of_each(accelerator, lengths):
    batch = mixed_batch(lengths, GROUPS)
    for group, shared in enumerate(SharedBuilder(16, 64, GROUPS).build(batch)):
        for mine, theirs in zip(shared, before.build_metadata(batch, group), strict=True):
            assert torch.equal(mine.cpu(), theirs.cpu())


@pytest.mark.parametrize("lengths", MIXED, ids=str)
def test_both_servers_compute_and_store_the_same(accelerator, servers, lengths):
    batch = mixed_batch(lengths, GROUPS)
    first, second = (server.step(batch, hidden(accelerator, batch)) for server in servers)
    torch.testing.assert_close(second.cpu(), first.cpu())
    for mine, theirs in zip(servers[1].caches, servers[0].caches, strict=True):
        torch.testing.assert_close(mine[16:].cpu(), theirs[16:].cpu())


def test_a_warm_step_is_one_upload_and_one_graph_and_compiles_nothing(accelerator, servers):
    batch = decode_batch(20, GROUPS)
    given = hidden(accelerator, batch)
    with debubble.no_compiles(), debubble.no_host_syncs(), debubble.record() as timeline:
        servers[1].step(batch, given)
    counts = timeline.counts()
    assert (counts["h2d_pinned"], counts["graph_launches"], counts["host_syncs"]) == (1, 1, 0)


def test_the_first_server_compiles_for_the_first_single_token(accelerator):
    server = before.StepServer(LAYERS, WIDTH, GROUPS, SLOTS)
    for requests in (16, 17):
        batch = decode_batch(requests, GROUPS)
        server.step(batch, hidden(accelerator, batch))
    batch = decode_batch(1, GROUPS)
    with debubble.record(also=["compile"]) as timeline:
        server.step(batch, hidden(accelerator, batch))
    missed = [event.call for event in timeline.events if event.kind == "compile"]
    assert missed in ([], ["num_tokens: 1, was a multiple of 16"])  # [] if compiled before
    with debubble.no_compiles():
        server.step(batch, hidden(accelerator, batch))


def test_too_large_a_batch_is_refused_before_anything_changes(accelerator):
    builder = SharedBuilder(4, 8, GROUPS)
    with pytest.raises(ValueError, match="5 requests with 5 tokens"):
        builder.renew(decode_batch(5, GROUPS))
    assert not builder.slots.any().item()


@pytest.mark.parametrize("most", [1, 7, 8, 9, 100, 256])
def test_buckets_hold_every_size(most):
    buckets = buckets_up_to(most)
    assert buckets == sorted(set(buckets)) and buckets[-1] >= most
    assert [bucket_for(size, buckets) for size in buckets] == buckets
    with pytest.raises(ValueError, match="largest bucket"):
        bucket_for(buckets[-1] + 1, buckets)


@pytest.mark.parametrize("lengths", MIXED, ids=str)
def test_fused_layers_compute_the_same_with_a_third_of_the_launches(accelerator, lengths):
    batch = mixed_batch(lengths, GROUPS)
    fused, plain = FusedServer(LAYERS, WIDTH, GROUPS, SLOTS), before.StepServer(LAYERS, WIDTH, 0, 1)
    given = hidden(accelerator, batch)
    with debubble.record() as timeline:
        output = fused.step(batch, given)
    torch.testing.assert_close(output.cpu(), plain.compute(given).cpu())
    assert timeline.counts()["kernels"] == LAYERS + GROUPS


def test_serving_records_a_step_for_each_request(accelerator):
    server = before.StepServer(1, WIDTH, 1, SLOTS)
    served = serve(server, [16, 17, 1, 1])
    compiled = [[e.kind for e in timeline.events].count("compile") for timeline in served]
    assert len(served) == 4 and compiled[3] == 0


@pytest.mark.parametrize("percent", [5, 25, 100])
def test_buckets_grow_by_at_most_the_percent_or_by_one(percent):
    sizes = growing_by(percent, 200)
    assert sizes[0] == 1 and sizes[-1] == 200
    for small, large in pairwise(sizes):
        assert large - small == 1 or large <= small * (1 + percent / 100)


def test_the_picture_says_how_much_is_padding():
    picture = BucketsPicture([1, 2, 4], "powers of two")
    assert picture.padding == pytest.approx(1 / 11)
    assert picture.text == "3 buckets, 9% of the rows are padding\npowers of two: 1, 2, 4"
    assert picture.figure.get_label() == picture.text


@pytest.mark.sim
@pytest.mark.deep
def test_the_engines_steps_are_measured_in_a_process_for_each_checkout(accelerator, monkeypatch):
    monkeypatch.setattr(engine_steps, "STEPS", 2)
    monkeypatch.setenv("DEBUBBLE_DEVICE", "sim")
    checkout = engine_steps.Checkout(engine_steps.ROOT)
    times = checkout.times()
    checkout.stop()
    assert len(times) == 2 and min(times) > 0
    engine = engine_steps.decoding_engine(1, engine_steps.requests_here())
    assert checkout.calls == engine_steps.python_calls(engine.step)
