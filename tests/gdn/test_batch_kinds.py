"""GDNAttentionMetadataBuilder on every kind of batch, compared with plain Python."""

import pytest
import torch
from hypothesis import given, settings

from solutions.gdn.metadata import GDNAttentionMetadataBuilder

from .batches import KINDS, TABLES, Requests, build, make_batch, some_requests, speculation
from .metadata_oracle import expect_metadata, expected

IN_ALL_WAYS = pytest.mark.parametrize("tables", TABLES)


@IN_ALL_WAYS
@pytest.mark.parametrize("padding", [0, 1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_batch(accelerator, kind, padding, tables):
    requests = KINDS[kind].padded(padding)
    expect_metadata(accelerator, build(accelerator, requests, tables), requests, tables)


@given(requests=some_requests())
@settings(max_examples=60)
def test_any_batch_and_the_host_says_what_the_device_says(accelerator, requests):
    for tables in TABLES:
        expect_metadata(accelerator, build(accelerator, requests, tables), requests, tables)


@IN_ALL_WAYS
def test_hundreds_of_requests_of_all_kinds(accelerator, tables):
    """The metadata of 300 requests of all kinds is right: their mask has several words of bits, in
    an order that doesn't repeat."""
    generator = torch.Generator().manual_seed(3)
    drafts = torch.randint(-3, 4, (300,), generator=generator).clamp(min=-1).tolist()
    lengths = torch.randint(1, 140, (300,), generator=generator).tolist()
    query_lens = [
        1 + draft if draft >= 0 else length for draft, length in zip(drafts, lengths, strict=True)
    ]
    requests = Requests.of(query_lens, drafts=drafts, padding=20)
    expect_metadata(accelerator, build(accelerator, requests, tables), requests, tables)


@IN_ALL_WAYS
def test_3_decodes_and_prefills_of_512_and_300(accelerator, tables):
    metadata = build(accelerator, Requests.of([1, 1, 1, 512, 300]), tables)
    assert (metadata.num_decodes, metadata.num_prefills) == (3, 2)
    assert metadata.prefill_query_start_loc.tolist() == [0, 512, 812]
    assert metadata.has_initial_state.tolist() == [True, True, True, False, False]
    if tables is not None:
        assert metadata.chunk_offsets.tolist() == [0, 8, 13]
        assert metadata.chunk_indices[8:13].tolist() == [[1, chunk] for chunk in range(5)]


@IN_ALL_WAYS
def test_a_prompt_of_one_token_is_no_decode(accelerator, tables):
    """A prompt of one token without computed tokens counts as a prefill, not as a decode: its slot
    holds a different request's state, from which it must not continue."""
    metadata = build(accelerator, Requests.of([1, 1, 1], computed=[4, 0, 4]), tables)
    assert (metadata.num_decodes, metadata.num_prefills) == (1, 2)
    assert metadata.prefill_has_initial_state.tolist() == [False, True]


@IN_ALL_WAYS
def test_the_prefills_are_views(accelerator, tables):
    metadata = build(accelerator, Requests.of([1, 1, 65, 3]), tables)
    for name, whole in {
        "prefill_state_indices": metadata.non_spec_state_indices,
        "prefill_has_initial_state": metadata.has_initial_state,
    }.items():
        assert getattr(metadata, name).data_ptr() == whole[2:].data_ptr()


def test_drafts_of_nobody_change_nothing(accelerator):
    requests = Requests.of([1, 5], padding=1)
    builder = GDNAttentionMetadataBuilder(accelerator.device)
    drafts = torch.full((3,), -1, dtype=torch.int32)
    metadata = builder.build(requests.common(accelerator), num_decode_draft_tokens_cpu=drafts)
    expect_metadata(accelerator, metadata, requests, "host")


def test_make_batch_goes_with_its_speculation(accelerator):
    drafts = [2, -1, 0]
    requests = Requests.of([3, 9, 1], drafts=drafts, padding=1)
    common = make_batch(accelerator, [3, 9, 1], drafts=drafts, padding=1)
    builder = GDNAttentionMetadataBuilder(accelerator.device)
    metadata = builder.build(common, **speculation(accelerator, drafts, padding=1))
    expect_metadata(accelerator, metadata, requests, "host")


def test_the_oracle_itself_on_a_batch_done_by_hand():
    counts, lists = expected(Requests.of([3, 1, 65], drafts=[2, -1, -1], padding=1))
    assert counts == {
        "num_prefills": 3,
        "num_prefill_tokens": 66,
        "num_decodes": 0,
        "num_decode_tokens": 0,
        "num_spec_decodes": 1,
        "num_spec_decode_tokens": 3,
        "num_actual_tokens": 69,
        "num_padding": 0,
    }
    assert lists["chunk_indices"] == [[0, 0], [1, 0], [1, 1]]
    assert lists["chunk_offsets"] == [0, 1, 3, 3]
    assert lists["has_initial_state"] == [True, False, False]
    assert lists["spec_token_indices"] == [0, 1, 2]
