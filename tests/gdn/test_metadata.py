"""GDNAttentionMetadataBuilder never waits, uploads at most once, and avoids the traps."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from solutions.gdn.host_tables import prepare_chunk_indices
from solutions.gdn.metadata import GDNAttentionMetadataBuilder
from solutions.gdn.requests.reordering import mask_on_device
from solutions.gdn.rule.chunks import FLA_CHUNK_SIZE
from solutions.pinned_h2d import StagingRing
from tests.common import claims

from .batches import KINDS, MIXED, TABLES, Requests, build, call_of
from .metadata_oracle import expect_metadata

IN_ALL_WAYS = pytest.mark.parametrize("tables", TABLES)
LARGE = 4096
RING_BYTES = 1 << 16


def ring_of(depth):
    return StagingRing((RING_BYTES,), torch.uint8, depth)


@pytest.mark.parametrize("kind", KINDS)
def test_at_most_one_pinned_upload_where_the_host_plans(accelerator, kind):
    call = call_of(accelerator, KINDS[kind].padded(1))
    uploads = 1 if call().num_prefills else 0
    claims.expect_no_wait(accelerator, call, pinned_uploads=uploads)


@pytest.mark.parametrize("kind", KINDS)
def test_no_upload_at_all_where_the_device_makes_the_tables(accelerator, kind):
    call = call_of(accelerator, KINDS[kind].padded(1), "device")
    claims.expect_no_wait(accelerator, call, pinned_uploads=0)


@pytest.mark.parametrize("kind", KINDS)
def test_without_tables_there_is_no_wait_either(accelerator, kind):
    claims.expect_no_wait(accelerator, call_of(accelerator, KINDS[kind], None))


def test_from_a_ring_it_is_one_pinned_upload_too(accelerator):
    ring = ring_of(depth=4)
    claims.expect_no_wait(accelerator, call_of(accelerator, MIXED, "host", ring))


def test_speculative_requests_alone_need_nothing_new(accelerator):
    call = call_of(accelerator, Requests.of([3, 1], drafts=[2, 0], padding=1))
    counts = claims.counts_of(accelerator, call)
    assert counts["kernels"] == counts["h2d_pinned"] == counts["d2d"] == 0


@pytest.mark.gpu
@IN_ALL_WAYS
def test_the_host_returns_at_once_also_with_4096_requests(accelerator, tables):
    """The host doesn't wait in a build for 4096 requests, whose mask reaches the device by 64
    launches."""
    call = call_of(accelerator, many_requests(), tables)
    claims.expect_host_returns(accelerator, call)


def many_requests():
    random = np.random.default_rng(6)
    drafts = np.where(random.random(LARGE) < 0.3, random.integers(0, 4, LARGE), -1)
    lengths = np.where(random.random(LARGE) < 0.1, random.integers(1, 200, LARGE), 1)
    query_lens = np.where(drafts >= 0, 1 + drafts, lengths)
    return Requests.of(query_lens.tolist(), drafts=drafts.tolist())


@pytest.mark.parametrize(
    "tables, depth", [("host", None), ("host", 2), ("host", 65), ("device", None), (None, None)]
)
def test_overlapped_steps_each_get_their_own_metadata(accelerator, tables, depth):
    ring = ring_of(depth) if depth else None
    builder = GDNAttentionMetadataBuilder(accelerator.device, tables, ring)
    batches = [different_batch(step) for step in range(claims.OVERLAPPED_CALLS)]
    inputs = [(batch.common(accelerator), batch.speculation(accelerator)) for batch in batches]
    call = lambda given: builder.build(given[0], **given[1])
    results = claims.overlapped(accelerator, call, inputs)
    for metadata, requests in zip(results, batches, strict=True):
        expect_metadata(accelerator, metadata, requests, tables)


def different_batch(step):
    drafts = [step % 3, -1, -1, step % 2 - 1] if step % 4 else [-1] * 4
    lengths = [1, 1, 1 + 5 * step, 1 + step // 2]
    query_lens = [
        1 + draft if draft >= 0 else length for draft, length in zip(drafts, lengths, strict=True)
    ]
    return Requests.of(query_lens, drafts=drafts, padding=step % 2)


@pytest.mark.parametrize(
    ("captured", "replayed"),
    [
        (Requests.of([1, 1, 100, 30]), Requests.of([1, 1, 30, 100], [4, 9, 30, 0], [7, 1, 5, 3])),
        (Requests.of([100, 30]), Requests.of([65, 65], padding=0)),
        (Requests.of([1, 1], padding=2), Requests.of([1, 1], [8, 3], [6, 2], padding=2)),
        (
            Requests.of([3, 100, 1], drafts=[2, -1, -1]),
            Requests.of([3, 2, 99], [8, 0, 64], [[4, 5, 6], 1, 2], drafts=[2, -1, -1]),
        ),
    ],
    ids=["decodes and prefills", "prefills", "padded decodes", "speculative and prefills"],
)
def test_a_replayed_graph_makes_the_metadata_of_what_is_there_then(accelerator, captured, replayed):
    """A replay of a captured build makes the right metadata for the requests that are in its inputs
    then. Only the counts, and which requests are speculative, are fixed by the capture."""
    builder = GDNAttentionMetadataBuilder(accelerator.device, "device")
    common, later = captured.common(accelerator), replayed.common(accelerator)
    speculation = captured.speculation(accelerator)
    builder.build(common, **speculation)
    accelerator.synchronize()
    graph = accelerator.graph()
    with graph.capture():
        metadata = builder.build(common, **speculation)
    for name in ("query_start_loc", "seq_lens", "state_indices"):
        getattr(common, name).copy_(getattr(later, name))
    graph.replay()
    expect_metadata(accelerator, metadata, replayed, "device")


def tokens_of(chunk_indices, starts):
    """Returns the tokens that the kernels read for these rows of chunk_indices, chunk by chunk."""
    tokens = []
    for sequence, chunk in chunk_indices:
        first = starts[sequence] + chunk * FLA_CHUNK_SIZE
        tokens += range(first, min(first + FLA_CHUNK_SIZE, starts[sequence + 1]))
    return tokens


@pytest.mark.parametrize("tables", ["host", "device"])
def test_trap_5_tables_come_from_the_rebased_starts_of_the_prefills(accelerator, tables):
    requests = Requests.of([1, 1, 1, 512, 300])
    metadata = build(accelerator, requests, tables)
    num_chunks = metadata.chunk_offsets.tolist()[-1]
    rows = metadata.chunk_indices.tolist()[:num_chunks]
    rebased = metadata.prefill_query_start_loc.tolist()
    of_the_prefills = list(range(512 + 300))
    assert tokens_of(rows, rebased) == of_the_prefills

    # The plain slice counts from the batch's first token, not from the first prefill's.
    slice_as_it_is = requests.starts[3:]
    assert tokens_of(rows, slice_as_it_is) == list(range(3, 815)) != of_the_prefills
    with pytest.raises(ValueError, match="starts at 3"):
        prepare_chunk_indices(np.array(slice_as_it_is))
    # The table of the whole batch has rows of sequences that are not among the prefills.
    of_all = prepare_chunk_indices(np.array(requests.starts)).tolist()
    assert max(sequence for sequence, _ in of_all) >= metadata.num_prefills


@pytest.mark.parametrize("tables", ["host", "device"])
def test_trap_6_tables_are_made_after_speculation_turned_decodes_into_prefills(accelerator, tables):
    metadata = build(accelerator, Requests.of([1, 1, 65, 4], drafts=[-1, -1, -1, 3]), tables)
    assert (metadata.num_decodes, metadata.num_prefills) == (0, 3)
    num_chunks = metadata.chunk_offsets.tolist()[-1]
    rows = metadata.chunk_indices.tolist()[:num_chunks]
    starts = metadata.prefill_query_start_loc.tolist()
    assert tokens_of(rows, starts) == list(range(67))

    # The version before has two decodes and a prefill. Of its two chunks one is empty now, the
    # other a decode's.
    before = build(accelerator, Requests.of([1, 1, 65]), tables)
    assert (before.num_decodes, before.num_prefills) == (2, 1)
    rows_before = before.chunk_indices.tolist()
    assert rows_before == [[0, 0], [0, 1]]
    assert tokens_of(rows_before, starts) == [0]
    # By length alone the speculative request would be a prefill too.
    by_length = build(accelerator, Requests.of([1, 1, 65, 4]), tables)
    assert (by_length.num_prefills, by_length.num_prefill_tokens) == (2, 69)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 200])
def test_any_mask_reaches_the_device_as_arguments_of_kernels(accelerator, size):
    mask = np.random.default_rng(size).random(size) < 0.5
    mask[63:64] = True  # the sign bit of a word
    call = lambda: mask_on_device(mask, accelerator.device)
    assert call().tolist() == mask.astype(int).tolist()
    claims.expect_no_wait(accelerator, call, pinned_uploads=0)


def test_the_hosts_numbers_may_come_as_arrays(accelerator):
    common = MIXED.common(accelerator)
    on_host = {
        "query_start_loc_cpu": common.query_start_loc_cpu.numpy(),
        "seq_lens_cpu": common.seq_lens_cpu.numpy().astype(np.int64),
    }
    given = MIXED.speculation(accelerator)
    given["num_decode_draft_tokens_cpu"] = given["num_decode_draft_tokens_cpu"].numpy()
    builder = GDNAttentionMetadataBuilder(accelerator.device)
    metadata = builder.build(replace(common, **on_host), **given)
    expect_metadata(accelerator, metadata, MIXED, "host")


def test_slots_that_are_a_part_of_a_wider_table(accelerator):
    for requests in (Requests.of([1, 1]), Requests.of([3, 2], drafts=[2, 1]), MIXED):
        common = requests.common(accelerator)
        wider = torch.cat([common.state_indices, common.state_indices], dim=1)
        part = wider[:, : common.state_indices.shape[1]]
        builder = GDNAttentionMetadataBuilder(accelerator.device)
        given = requests.speculation(accelerator)
        metadata = builder.build(replace(common, state_indices=part), **given)
        expect_metadata(accelerator, metadata, requests, "host")


def test_a_device_without_a_number_is_the_current_one(accelerator):
    builder = GDNAttentionMetadataBuilder(torch.device(accelerator.device.type))
    requests = Requests.of([1, 65])
    expect_metadata(accelerator, builder.build(requests.common(accelerator)), requests, "host")
