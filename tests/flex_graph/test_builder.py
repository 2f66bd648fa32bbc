"""The builder: one builder serves all steps of the graphs' lifetime."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solutions.flex_graph.buffers import PersistentBuffers, buffer_shapes
from solutions.flex_graph.builder import FlexAttentionMetadataBuilder
from solutions.flex_graph.mask import CAUSAL, Mask, sliding_window
from solutions.flex_graph.tables.device_build import build_on_device
from tests.common import claims
from tests.common.refusals import expect_refused

from .tables import (
    LIMITS,
    MASKS,
    Batch,
    Results,
    expect_built,
    expected_pages,
    expected_sight,
    listed,
    on_device,
    some_batches,
)

CAPTURED = 40
"""The number of tokens for which the graphs are captured; batches are padded to it."""
STEPS = {
    "as captured": Batch.shuffled([(1, 33), (1, 48), (9, 9)], num_tokens=CAPTURED),
    "longer": Batch.shuffled([(1, 70), (1, 70), (9, 70)], num_tokens=CAPTURED, seed=1),
    "shorter": Batch.shuffled([(1, 2), (1, 16), (1, 1)], num_tokens=CAPTURED, seed=2),
    "more requests": Batch.shuffled(
        [(1, 40), (20, 20), (1, 64), (18, 50)], num_tokens=CAPTURED, seed=3
    ),
    "fewer": Batch.shuffled([(40, 70)], num_tokens=CAPTURED, seed=4),
    "nobody": Batch.of([], num_tokens=CAPTURED),
    "shared pages": Batch.of(
        [(1, 40, [7, 8, 3]), (2, 40, [7, 8, 4]), (1, 33, [9, 4, 7])], num_tokens=CAPTURED
    ),
    "other places of the same pages": Batch.of(
        [(1, 40, [8, 7, 3]), (2, 40, [4, 8, 7]), (1, 33, [7, 9, 4])], num_tokens=CAPTURED
    ),
}


def builder_of(accelerator, mask=CAUSAL, limits=LIMITS):
    return FlexAttentionMetadataBuilder(limits, accelerator.device, mask)


def layout(buffers):
    return {
        name: (getattr(buffers, name).data_ptr(), getattr(buffers, name).stride())
        for name in buffer_shapes(LIMITS)
    }


@pytest.fixture(scope="module")
def builders(accelerator):
    return {name: builder_of(accelerator, mask) for name, mask in MASKS.items()}


@given(batches=st.lists(some_batches(), min_size=1, max_size=3), name=st.sampled_from([*MASKS]))
@settings(max_examples=30)
def test_every_build_is_of_its_own_batch_and_in_the_same_memory(
    accelerator, builders, batches, name
):
    builder = builders[name]
    before = layout(builder.buffers)
    for batch in batches:
        metadata = builder.build(batch.common(accelerator))
        assert layout(builder.buffers) == before
        assert metadata.num_tokens == batch.num_tokens
        expect_built(builder.buffers, batch, MASKS[name])
        assert listed(metadata.kv_num_blocks, metadata.kv_indices) == expected_pages(
            batch, MASKS[name]
        )


def test_the_block_mask_is_a_view_of_the_buffers(accelerator):
    builder = builder_of(accelerator)
    metadata = builder.build(Batch.shuffled([(1, 33), (20, 40)], num_tokens=30).common(accelerator))
    block_mask, buffers = metadata.block_mask, builder.buffers
    assert block_mask.kv_indices.data_ptr() == buffers.kv_indices.data_ptr()
    assert block_mask.kv_num_blocks.data_ptr() == buffers.kv_num_blocks.data_ptr()
    assert block_mask.kv_indices.shape == (1, 1, 2, 16 * 5 + 1)
    assert block_mask.kv_indices.stride(2) == buffers.kv_indices.stride(0)
    assert block_mask.BLOCK_SIZE == (16, 16) and block_mask.seq_lengths == (30, 24 * 16)
    assert block_mask.full_kv_indices is None and block_mask.q_indices is None
    assert metadata.doc_ids.tolist() == [0] + [1] * 20 + [0] * 9


def test_all_steps_have_one_mask_function(accelerator):
    """The metadata of all steps has the same mask function, since a new function would be a new
    kernel to compile."""
    builder = builder_of(accelerator)
    first, second = (
        builder.build(batch.common(accelerator)).block_mask.mask_mod
        for batch in (STEPS["longer"], STEPS["fewer"])
    )
    assert first is second


@pytest.mark.parametrize("name", MASKS)
def test_what_a_token_sees_is_in_the_pages_of_its_group(accelerator, name):
    builder = builder_of(accelerator, MASKS[name])
    for batch in STEPS.values():
        metadata = builder.build(batch.common(accelerator))
        seen = sight(accelerator, metadata.block_mask.mask_mod, batch)
        assert (seen == expected_sight(batch, MASKS[name])).all()
        groups = listed(metadata.kv_num_blocks, metadata.kv_indices)
        for token in range(batch.num_tokens):
            blocks = seen[token].reshape(-1, LIMITS.block_size).any(1).nonzero()[0]
            assert set(blocks) <= set(groups[token // LIMITS.q_block])


def sight(accelerator, mask_mod, batch):
    first = on_device(accelerator, [[0]])
    q = on_device(accelerator, range(batch.num_tokens))[:, None]
    return (
        mask_mod(first, first, q, on_device(accelerator, range(LIMITS.num_slots))[None])
        .cpu()
        .numpy()
    )


def inputs_of(accelerator, batch):
    """Returns the batch's metadata inputs in tensors with all rows, which keep their addresses, as
    a runner has them."""
    return batch.in_all_rows().common(accelerator)


def captured(accelerator, builder, inputs, build):
    graph, _ = claims.captured(accelerator, lambda: build(inputs))
    return graph


@pytest.mark.parametrize("name", ["causal", "window"])
def test_a_captured_build_serves_every_batch(accelerator, name):
    builder, mask = builder_of(accelerator, MASKS[name]), MASKS[name]
    inputs = inputs_of(accelerator, STEPS["as captured"])
    before = layout(builder.buffers)
    graph = captured(accelerator, builder, inputs, builder.build_for_cudagraph_capture)
    for step in (*STEPS, *reversed(STEPS)):
        STEPS[step].in_all_rows().copy_into(inputs)
        graph.replay()
        expect_built(builder.buffers, STEPS[step], mask)
    assert layout(builder.buffers) == before


def test_eager_builds_between_replays_change_nothing(accelerator):
    builder = builder_of(accelerator)
    inputs = inputs_of(accelerator, STEPS["as captured"])
    graph = captured(accelerator, builder, inputs, builder.build_for_cudagraph_capture)
    for batch in (STEPS["longer"], STEPS["shared pages"]):
        builder.build(STEPS["more requests"].common(accelerator))
        batch.in_all_rows().copy_into(inputs)
        graph.replay()
        expect_built(builder.buffers, batch, CAUSAL)


def test_trap_12_a_capture_is_for_the_longest_request_and_reads_no_length(accelerator):
    builder, batch = builder_of(accelerator), STEPS["shorter"]
    inputs = inputs_of(accelerator, batch)
    graph = captured(accelerator, builder, inputs, builder.build_for_cudagraph_capture)
    STEPS["longer"].in_all_rows().copy_into(inputs)
    graph.replay()
    expect_built(builder.buffers, STEPS["longer"], CAUSAL)

    # A graph captured with its batch's lengths would miss pages of a longer batch.
    batch.in_all_rows().copy_into(inputs)
    graph = captured(accelerator, builder, inputs, builder.build)
    STEPS["longer"].in_all_rows().copy_into(inputs)
    graph.replay()
    assert builder.buffers.kv_num_blocks[0].item() < 15

    # A length that the host reads can't be captured at all.
    failing = accelerator.graph()
    with pytest.raises(RuntimeError), failing.capture():
        builder.build(replace(inputs, max_seq_len=inputs.seq_lens.max().item()))
    builder.build(batch.common(accelerator))
    expect_built(builder.buffers, batch, CAUSAL)


def test_trap_13_builders_with_different_masks_do_not_mix(accelerator):
    near, far = builder_of(accelerator, sliding_window(8)), builder_of(accelerator)
    for batch in (STEPS["longer"], STEPS["fewer"]):
        of_near, of_far = (builder.build(batch.common(accelerator)) for builder in (near, far))
        for metadata, mask in ((of_near, sliding_window(8)), (of_far, CAUSAL)):
            assert listed(metadata.kv_num_blocks, metadata.kv_indices) == expected_pages(
                batch, mask
            )
            seen = sight(accelerator, metadata.block_mask.mask_mod, batch)
            assert (seen == expected_sight(batch, mask)).all()
    with pytest.raises(AttributeError):
        far.mask = sliding_window(8)

    # If layers share one builder and set its mask, all of them get the last layer's lists.
    shared = PretendsToServeAllLayers(LIMITS, accelerator.device)
    of_layers = [shared.build_for(mask, batch.common(accelerator)) for mask in (CAUSAL, near.mask)]
    first, last = (listed(layer.kv_num_blocks, layer.kv_indices) for layer in of_layers)
    assert first == last != expected_pages(batch, CAUSAL)


class PretendsToServeAllLayers(FlexAttentionMetadataBuilder):
    def build_for(self, mask, common):
        self._mask = mask
        return self.build(common)


def test_trap_7_a_mask_set_in_forward_is_not_in_the_lists(accelerator):
    batch, window = STEPS["longer"], sliding_window(8)
    metadata = builder_of(accelerator, window).build(batch.common(accelerator))
    assert listed(metadata.kv_num_blocks, metadata.kv_indices) == expected_pages(batch, window)

    # Before the change the layer put its window on metadata without one, and read all the rest.
    late = builder_of(accelerator).build(batch.common(accelerator))
    late.block_mask.mask_mod = metadata.block_mask.mask_mod
    needed, read = (layer.kv_num_blocks.sum().item() for layer in (metadata, late))
    assert read > 2 * needed


def test_a_mask_of_ones_own_is_part_of_every_build_and_checked_as_the_builder_is_made(accelerator):
    even = lambda b, h, q, kv: kv % 2 == 0
    metadata = builder_of(accelerator, Mask(logical_mask_mod=even)).build(
        Batch.of([(1, 20, [3, 4])]).common(accelerator)
    )
    assert sight(accelerator, metadata.block_mask.mask_mod, Batch.of([(1, 20, [3, 4])])).sum() == 10
    waits = Mask(logical_mask_mod=lambda b, h, q, kv: kv < q.max().item())
    with pytest.raises(RuntimeError, match="logical_mask_mod makes the host wait"):
        builder_of(accelerator, waits)


def test_no_wait_no_upload_and_as_many_launches_as_it_says(accelerator):
    builder = builder_of(accelerator)
    whole, some = STEPS["longer"].in_all_rows(), STEPS["longer"]
    for batch, copies_and_fills in ((whole, 3), (some, 5)):
        common = batch.common(accelerator)
        counts = claims.expect_no_wait(accelerator, lambda c=common: builder.build(c), 0)
        assert counts["kernels"] + counts["d2d"] == 3 + copies_and_fills
        assert counts["h2d_pinned"] == counts["d2h"] == 0


@pytest.mark.gpu
def test_the_host_returns_at_once(accelerator):
    builder, common = builder_of(accelerator), STEPS["longer"].common(accelerator)
    claims.expect_host_returns(accelerator, lambda: builder.build(common))


def test_overlapped_steps_each_get_their_own_lists(accelerator):
    builder = builder_of(accelerator)

    def built(common):
        metadata = builder.build(common)
        return metadata.kv_num_blocks.clone(), metadata.kv_indices.clone()

    inputs = [batch.common(accelerator) for batch in STEPS.values()]
    results = claims.overlapped(accelerator, built, inputs)
    for result, batch in zip(results, STEPS.values(), strict=True):
        assert listed(*result) == expected_pages(batch, CAUSAL)


def test_what_lies_in_the_buffers_already_needs_no_copy(accelerator):
    builder = builder_of(accelerator)
    batch = STEPS["longer"].in_all_rows()
    batch.copy_into(builder.buffers)
    common = replace(
        batch.common(accelerator),
        **{
            name: getattr(builder.buffers, name)
            for name in ("query_start_loc", "seq_lens", "block_table")
        },
    )
    assert claims.counts_of(accelerator, lambda: builder.build(common))["d2d"] == 0
    expect_built(builder.buffers, batch, CAUSAL)


BEYOND = {
    "5 requests: max_num_seqs is 4": lambda: Batch.shuffled([(1, 2)] * 5),
    "41 tokens: max_num_batched_tokens is 40": lambda: Batch.shuffled([(41, 41)]),
    "71 tokens of a request: max_model_len is 70": lambda: Batch.shuffled([(1, 71)]),
    "6 pages of a request: pages_per_seq is 5": lambda: Batch.of([(1, 2, [3])], columns=6),
    "0 tokens: a step has at least one": lambda: Batch.of([]),
}


@pytest.mark.parametrize("message", BEYOND)
def test_trap_9_a_batch_beyond_the_limits_is_refused_before_anything_is_touched(
    accelerator, message
):
    """A batch beyond the limits raises ValueError and changes no buffer, also in a build for a
    capture, whose lengths are only a guess."""
    builder, common = builder_of(accelerator), BEYOND[message]().common(accelerator)
    builder.build(STEPS["shared pages"].common(accelerator))
    unchanged = tuple(getattr(builder.buffers, name) for name in buffer_shapes(LIMITS))
    for build in (builder.build, builder.build_for_cudagraph_capture):
        expect_refused(accelerator, lambda b=build: b(common), message, unchanged)


def test_trap_9_what_goes_unrefused_reads_another_requests_row(accelerator):
    """A request of twice the greatest length is refused. If it weren't, its page list would contain
    blocks of the next request's row."""
    batch = Batch.of([(1, 140, [1, 2, 3, 4, 5, 0, 0, 0, 0])], columns=9)
    beside = Batch.of([(1, 70, [1, 2, 3, 4, 5]), (1, 40, [6, 7, 8])])
    builder = builder_of(accelerator)
    with pytest.raises(ValueError, match="140 tokens of a request: max_model_len is 70"):
        builder.build(batch.common(accelerator))
    buffers = builder.build(beside.common(accelerator)).buffers
    buffers.seq_lens[0] = 140
    build_on_device(buffers, LIMITS, CAUSAL, num_tokens=1, max_seq_len=140)
    pages = listed(buffers.kv_num_blocks[:1], buffers.kv_indices[:1])[0]
    assert {6, 7, 8} <= set(pages)


WRONG = {
    r"query_start_loc is torch.int32 \[3\] .*: make it torch.int32 \[4\]": lambda c: replace(
        c, query_start_loc=c.query_start_loc[:3]
    ),
    r"seq_lens is torch.int64 \[3\]": lambda c: replace(c, seq_lens=c.seq_lens.long()),
    r"block_table is torch.int32 \[2, 5\] .*: make it torch.int32 \[3, 5\]": lambda c: replace(
        c, block_table=c.block_table[:2]
    ),
    r"block_table is torch.int32 \[15\]": lambda c: replace(c, block_table=c.block_table.view(-1)),
    r"seq_lens is torch.int32 \[3\] on cpu": lambda c: replace(c, seq_lens=c.seq_lens.cpu()),
    r"a block table of 2 pages of 16 tokens for max_seq_len 48: give it 3": lambda c: replace(
        c, block_table=c.block_table[:, :2]
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_tensors_that_cannot_be_are_refused(accelerator, message):
    builder = builder_of(accelerator)
    common = WRONG[message](STEPS["as captured"].common(accelerator))
    unchanged = tuple(getattr(builder.buffers, name) for name in buffer_shapes(LIMITS))
    expect_refused(accelerator, lambda: builder.build(common), message, unchanged)


def test_trap_11_a_build_makes_no_memory(accelerator):
    builder = builder_of(accelerator)
    common = STEPS["longer"].common(accelerator)
    builder.build(common)
    known = [getattr(builder.buffers, name) for name in buffer_shapes(LIMITS)]
    with Results() as results:
        builder.build(common)
    assert results.tensors
    addresses = {tensor.untyped_storage().data_ptr() for tensor in known}
    assert {made.untyped_storage().data_ptr() for made in results.tensors} <= addresses


def test_a_table_too_narrow_for_what_may_be_replayed_is_not_captured(accelerator):
    common = Batch.of([(1, 20, [3, 4])], columns=2).common(accelerator)
    builder = builder_of(accelerator)
    builder.build(common)
    with pytest.raises(ValueError, match="of 2 pages of 16 tokens for max_seq_len 70: give it 5"):
        builder.build_for_cudagraph_capture(common)


def test_the_buffers_of_two_builders_are_their_own(accelerator):
    one, other = builder_of(accelerator), builder_of(accelerator)
    assert isinstance(one.buffers, PersistentBuffers)
    addresses = {
        getattr(b.buffers, name).data_ptr() for b in (one, other) for name in layout(one.buffers)
    }
    assert len(addresses) == 2 * len(buffer_shapes(LIMITS))
