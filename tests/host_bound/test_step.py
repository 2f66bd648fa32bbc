"""The warmed-up server gives the same results as the first one, and its host does less."""

import pytest
import torch

import debubble
from solutions.host_bound import SharedBuilder, StepServer, before, bucket_for, buckets_up_to
from solutions.host_bound.batch import decode_batch, mixed_batch

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
    assert missed in ([], ["num_tokens: 1, before a multiple of 16"])  # [] if compiled before
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
