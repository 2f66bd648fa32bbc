"""The metadata before the change: right, but new in every step, so a graph can't hold it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import debubble
from solutions.flex_graph import before
from solutions.flex_graph.builder import FlexAttentionMetadataBuilder
from solutions.flex_graph.mask import Mask
from solutions.flex_graph.steps.inputs import StepInputs

from .serving import Serving
from .tables import LIMITS, MASKS, listed

EVEN_KEYS = Mask(logical_mask_mod=lambda b, h, q, kv: kv % 2 == 0)
ALL_MASKS = MASKS | {"own": EVEN_KEYS}


@pytest.fixture
def inputs(accelerator):
    return StepInputs(LIMITS, accelerator.device)


def commons(inputs, steps, seed=0):
    """Yields (batch, its metadata inputs) for `steps` random batches; every third one is padded to
    the limit."""
    serving = Serving(LIMITS, seed)
    for step in range(steps):
        batch, _ = serving.next_step(LIMITS.max_num_batched_tokens)
        inputs.upload(batch)
        num_tokens = LIMITS.max_num_batched_tokens if step % 3 == 0 else batch.num_tokens
        yield batch, inputs.common(num_tokens, batch.max_seq_len)


def sees(metadata):
    """Returns [T, slots] bool on the host: True for the slots that a token sees, as the metadata's
    page lists and mask say."""
    device = metadata.doc_ids.device
    nothing = torch.zeros(1, 1, dtype=torch.int32, device=device)
    query = torch.arange(metadata.num_tokens, dtype=torch.int32, device=device)[:, None]
    slot = torch.arange(LIMITS.num_slots, dtype=torch.int32, device=device)[None]
    in_page = metadata.block_mask.mask_mod(nothing, nothing, query, slot).cpu()
    in_list = torch.zeros_like(in_page)
    rows, slots = LIMITS.q_block, LIMITS.block_size
    for group, pages in enumerate(lists_of(metadata)):
        assert len(set(pages)) == len(pages)
        for page in pages:
            in_list[group * rows : (group + 1) * rows, page * slots : (page + 1) * slots] = True
    return in_page & in_list


def lists_of(metadata):
    """Returns the blocks listed in the metadata for each group of tokens."""
    block_mask = metadata.block_mask
    return listed(block_mask.kv_num_blocks[0, 0], block_mask.kv_indices[0, 0])


@pytest.mark.parametrize("kind", ALL_MASKS)
def test_it_says_what_the_builder_of_today_says(accelerator, inputs, kind):
    was = before.FlexAttentionMetadataBuilder(LIMITS, accelerator.device, ALL_MASKS[kind])
    now = FlexAttentionMetadataBuilder(LIMITS, accelerator.device, ALL_MASKS[kind])
    for batch, common in commons(inputs, steps=8):
        right = sees(now.build(common))
        assert right[: batch.num_tokens].any(1).all() or kind == "own"
        assert torch.equal(sees(was.build(common)), right)


def test_a_group_lists_the_pages_of_its_requests_and_no_garbage(accelerator, inputs):
    builder = before.FlexAttentionMetadataBuilder(LIMITS, accelerator.device)
    for batch, common in commons(inputs, steps=8, seed=1):
        common = replace(common, num_actual_tokens=batch.num_tokens)
        requests = np.repeat(np.arange(len(batch.query_lens)), batch.query_lens)
        for group, pages in enumerate(lists_of(builder.build(common))):
            of_group = set(requests[group * LIMITS.q_block :][: LIMITS.q_block].tolist())
            tables = [
                row[: LIMITS.pages_of(n)]
                for row, n in zip(batch.block_table, batch.seq_lens, strict=True)
            ]
            assert pages == sorted({page for row in of_group for page in tables[row].tolist()})


def test_every_step_has_tensors_of_its_own(accelerator, inputs):
    builder = before.FlexAttentionMetadataBuilder(LIMITS, accelerator.device)
    steps = [builder.build(common) for _, common in commons(inputs, steps=3)]
    for tensors in zip(*map(tensors_of, steps), strict=True):
        assert len({tensor.data_ptr() for tensor in tensors}) == len(steps)


def tensors_of(metadata):
    made = (metadata.doc_ids, metadata.buffers.decode_offset, metadata.buffers.physical_to_logical)
    return [*made, metadata.block_mask.kv_num_blocks, metadata.block_mask.kv_indices]


def test_the_host_waits_in_the_build_and_again_in_the_first_layer(accelerator, inputs):
    builder = before.FlexAttentionMetadataBuilder(LIMITS, accelerator.device)
    _, common = next(commons(inputs, steps=1))
    builder.build(common).block_mask  # noqa: B018, what it compiles or loads makes no difference
    syncs = []
    with debubble.record(accelerator) as timeline:
        metadata = builder.build(common)
    syncs.append(timeline.counts()["host_syncs"])
    for _ in range(2):
        with debubble.record(accelerator) as timeline:
            block_mask = metadata.block_mask
        syncs.append(timeline.counts()["host_syncs"])
    assert syncs[0] >= 1
    assert syncs[1] >= 1
    assert syncs[2] == 0
    assert metadata.block_mask is block_mask


@pytest.mark.parametrize("part", ["build", "block_mask"])
def test_no_graph_can_hold_it(accelerator, inputs, part):
    builder = before.FlexAttentionMetadataBuilder(LIMITS, accelerator.device)
    _, common = next(commons(inputs, steps=1))
    metadata = builder.build(common)
    with pytest.raises(RuntimeError), accelerator.graph().capture():
        if part == "build":
            builder.build_for_cudagraph_capture(common)
        else:
            metadata.block_mask  # noqa: B018
