"""flex_attention on sim: errors for code that a GPU answers with an illegal access, or silently."""

import pytest
import torch

import debubble
from tests.accelerators.paged_batch import PAGE, PagedBatch, Request, expect_close
from tests.common import claims
from tests.sim.in_flight import in_flight, kinds

pytestmark = pytest.mark.sim


@pytest.fixture
def batch(accelerator):
    return PagedBatch(accelerator, 20)


def replayed(accelerator, batch, mask_mod=None):
    """Captures a graph of one call of flex_attention. Returns (graph, its output)."""
    return claims.captured(accelerator, lambda: batch.attend(mask_mod))


WRONG = {
    "beyond the cache": (
        "kv_indices",
        (1, 2),
        12,
        r"group 1 reads block 12, from column 2 .* 0 to 11",
    ),
    "the filler": ("kv_indices", (0, 0), -1, r"group 0 reads block -1, from column 0"),
    "no column behind": (
        "kv_num_blocks",
        (1,),
        13,
        r"group 1 reads 13 blocks, and .* 13 columns.*0 to 12",
    ),
    "a negative count": ("kv_num_blocks", (0,), -2, r"group 0 reads -2 blocks"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_entry_of_the_block_table_is_named(accelerator, batch, case):
    name, place, value, message = WRONG[case]
    getattr(batch, name)[place] = value
    with pytest.raises(RuntimeError, match=message):
        batch.attend()


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_entry_is_found_in_the_replay_and_not_in_the_capture(accelerator, batch, case):
    name, place, value, message = WRONG[case]
    batch.attend()
    right = getattr(batch, name).clone()
    getattr(batch, name)[place] = value
    graph, attended = claims.captured(accelerator, batch.attend, warm_up=False)
    with pytest.raises(RuntimeError, match=message):
        graph.replay()
    getattr(batch, name).copy_(right)
    graph.replay()
    expect_close(attended, batch.expected())


def test_all_columns_but_the_last_may_name_blocks(batch):
    """Attention is right if all columns of kv_indices but the last name blocks. A kernel reads
    ahead into the last column."""
    batch.kv_indices[0, :12] = torch.arange(12)
    batch.kv_num_blocks[0] = 12
    expect_close(batch.attend(), batch.expected())


def test_blocks_behind_the_count_are_not_read(accelerator, batch):
    batch.key[0], batch.value[0] = float("nan"), float("nan")
    batch.fill([Request([3], 10, 10), Request([4, 5], 30, 10)])
    batch.key[0], batch.value[0] = float("nan"), float("nan")
    expect_close(batch.attend(), batch.expected())


def test_what_a_key_that_nobody_sees_holds_is_multiplied_by_zero(batch):
    """A NaN in the value of a key that no query sees makes the result NaN, as on a GPU, whose
    kernel multiplies it by zero. A NaN in such a key doesn't."""
    batch.fill([Request([3], 10, 10)])
    batch.key[3, 12] = float("nan")
    expect_close(batch.attend(), batch.expected())
    batch.value[3, 12] = float("nan")
    assert batch.attend().isnan().any()


def test_a_mask_that_reads_beyond_a_tensor_is_an_error(batch):
    batch.doc_ids[3] = 7
    with pytest.raises(RuntimeError, match="mask function reads beyond a tensor: index 7"):
        batch.attend()


def test_nothing_is_computed_during_a_capture(accelerator, batch):
    graph, attended = replayed(accelerator, batch)
    assert attended.isnan().all()
    graph.replay()
    expect_close(attended, batch.expected())


@pytest.mark.parametrize("name", ["seq_lens", "kv_indices", "query"])
def test_what_a_graph_reads_and_was_freed_is_a_hazard(accelerator, batch, name):
    graph, _ = replayed(accelerator, batch)
    setattr(batch, name, None)
    with debubble.record(accelerator) as timeline:
        try:
            graph.replay()
        except RuntimeError as error:
            assert "1515870810" in str(error)
    (hazard,) = timeline.hazards
    assert hazard.kind == "graph_input_freed"
    assert hazard.first.function.endswith("attend")


@pytest.mark.parametrize("name", ["seq_lens", "kv_num_blocks", "value"])
def test_what_another_stream_still_writes_is_a_race(accelerator, batch, name):
    batch.attend()
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        with accelerator.stream():
            getattr(batch, name).add_(0)
        batch.attend()
    assert {hazard.kind for hazard in timeline.hazards} == {"unordered_streams"}


def test_a_pinned_buffer_that_was_overwritten_in_flight_is_what_it_reads(accelerator, batch):
    pinned = torch.zeros(4, dtype=torch.int32, pin_memory=True)
    pinned.copy_(batch.seq_lens.cpu())
    batch.attend()
    with in_flight(accelerator) as timeline:
        batch.seq_lens.copy_(pinned, non_blocking=True)
        attended = batch.attend()
        pinned.fill_(0)
        assert not attended.any()
    assert kinds(timeline) == ["overwritten_in_flight"]


def test_bytes_are_those_of_the_blocks_that_are_read_also_in_replays(accelerator, batch):
    def bytes_of(run) -> int:
        with debubble.record(accelerator) as timeline:
            run()
        return max(event.bytes for event in timeline.events if event.kind == "kernel")

    graph, _ = replayed(accelerator, batch)
    batch.fill([Request([3], 10, 10)])
    few = bytes_of(batch.attend)
    assert bytes_of(graph.replay) == few
    batch.fill([Request([3, 4, 5], 40, 10)])
    a_block = 2 * batch.key[0].nbytes
    assert bytes_of(graph.replay) == bytes_of(batch.attend) == few + 2 * a_block


def test_the_kernels_of_a_short_query_split_and_combine(accelerator, batch):
    batch.attend()
    with debubble.record(accelerator) as timeline:
        batch.attend()
    kernels = [event.name for event in timeline.events if event.kind == "kernel"]
    assert kernels == ["flex_decoding", "flex_combine_max", "flex_combine_sum"]


IN_HOST_MEMORY = torch.arange(32)
NOT_IN_A_KERNEL = {
    "a value": (lambda q, table: q == int(table[0]), "makes the host wait .*with __int__"),
    "a branch": (lambda q, table: q > 3 if q > 2 else q < 2, "makes .* wait .*with __bool__"),
    "a list": (lambda q, table: q == table.tolist()[0], "makes the host wait .*with tolist"),
    "a copy": (lambda q, table: q.cpu() > 0, "makes the host wait .*with _to_copy"),
    "a mask": (lambda q, table: table[table > 1] > 0, "makes the host wait .*with index"),
    "host memory": (lambda q, table: IN_HOST_MEMORY[q] > 0, r"shape \(32,\) in host memory"),
    "its own": (
        lambda q, table: torch.arange(4, device=q.device) > q,
        "makes a tensor of .*arange",
    ),
    "writing": (lambda q, table: table.add_(1)[q] > 0, "writes to a tensor with add_"),
    "an index": (lambda q, table: q.add_(1) > 0, "writes to a tensor with add_"),
    "a row": (lambda q, table: table.view(4, 8)[q % 4][:, 0] > 0, "one value for each pair"),
    "a sum": (lambda q, table: q.sum() > 0, "from sum .*one value for each pair"),
    "no bool": (lambda q, table: q * 2, "returns a bool tensor, and this one torch.int32"),
    "no tensor": (lambda q, table: True, "returns a bool tensor, and this one bool"),
}


@pytest.mark.parametrize("case", NOT_IN_A_KERNEL)
def test_what_no_kernel_can_do_is_refused_in_a_mask(accelerator, batch, case):
    mask, message = NOT_IN_A_KERNEL[case]
    table = torch.arange(32, device=accelerator.device)
    with pytest.raises(RuntimeError, match=message):
        batch.attend(lambda b, h, q, kv: mask(q, table))
    assert table.tolist() == list(range(32))


def test_a_refusal_names_the_line_of_the_mask(batch):
    def mask_mod(b, h, q, kv):
        return q > int(kv)  # this line

    with pytest.raises(RuntimeError, match="# this line"):
        batch.attend(mask_mod)


ALLOWED = {
    "a constant": lambda q, kv: q >= torch.tensor(3, device=q.device),
    "numbers": lambda q, kv: torch.where(q > 2, q, -1) >= 3.0,
    "another type": lambda q, kv: q.to(torch.float32) * 0.5 >= 1.5,
    "in place on its own": lambda q, kv: (q * 1).sub_(3) >= 0,
    "ones like it": lambda q, kv: q >= torch.full_like(q, 3),
    "logic": lambda q, kv: torch.logical_and(q >= 3, ~(q < 0)),
}


@pytest.mark.parametrize("case", ALLOWED)
def test_a_mask_is_ordinary_pytorch(batch, case):
    causal, also = batch.mask_mod(), ALLOWED[case]
    attended = batch.attend(lambda b, h, q, kv: causal(b, h, q, kv) & also(q, kv))
    assert not attended[:, :, :3].any()
    expect_close(attended[:, :, 3:], batch.expected()[:, :, 3:])


def test_no_mask_is_every_key_of_the_blocks(accelerator, batch):
    """Attention with PyTorch's own mask, which is used if there is none, sees all keys of the
    listed blocks. That mask has no shape."""
    from torch.nn.attention.flex_attention import noop_mask

    batch.fill([Request([3], PAGE, 10)])
    attended = batch.attend(noop_mask)
    keys = batch.value[3].cpu().repeat_interleave(2, 1)
    batch.key.zero_()
    attended = batch.attend(noop_mask)
    expect_close(attended[0, :, 0], keys.mean(0))


def test_query_heads_of_any_number_share_a_key_head(accelerator, batch):
    """Three query heads can share one key head, which takes one kernel: the kernel for long
    queries."""
    three = batch.query[:, :3].transpose(0, 1)[None]
    one = {name: t[:, :1] for name, t in batch.arguments().items() if name != "query"}
    from debubble.accelerator import flex_attention

    flex_attention(three, **one, block_mask=batch.block_mask())
    with debubble.record(accelerator) as timeline:
        attended = flex_attention(three, **one, block_mask=batch.block_mask())
    assert timeline.counts()["kernels"] == 1
    expect_close(attended[:, :2], batch.expected()[:, :2])


def test_large_score_matrices_are_computed_in_parts(accelerator, monkeypatch):
    batch = PagedBatch(accelerator, 130)
    monkeypatch.setattr("debubble.sim.flex.flex_attention.SCORES_AT_ONCE", 20_000)
    expect_close(batch.attend(), batch.expected())
