"""flex_attention has the same results, counts and compilations on a GPU and on sim."""

import functools

import pytest
import torch

import debubble
from debubble.accelerator import CaptureError, flex_attention
from tests.common import claims

from .paged_batch import (
    PAGE,
    PagedBatch,
    Request,
    expect_close,
)

ONE_GROUP = 10
"""The number of query tokens in most tests: flex_attention compiles again, for a second or two, for
one token, for several groups of tokens, and for long queries."""


@pytest.fixture
def batch(accelerator):
    return PagedBatch(accelerator, ONE_GROUP)


@pytest.mark.parametrize(("num_tokens", "kernels"), [(1, 3), (10, 3), (40, 3), (130, 1)])
def test_it_is_dense_attention_over_the_pages_of_each_request(accelerator, num_tokens, kernels):
    batch = PagedBatch(accelerator, num_tokens)
    expect_close(batch.attend(), batch.expected())
    with debubble.record(accelerator) as timeline:
        batch.attend()
    assert timeline.counts()["kernels"] == kernels
    assert sum(timeline.counts().values()) == kernels


def test_a_batch_of_single_tokens_is_attended_to_in_the_same_three_kernels(accelerator, batch):
    expect_close(batch.attend_alone(), batch.expected())
    block_mask = batch.alone_mask()
    with debubble.record(accelerator) as timeline:
        batch.attend_alone(block_mask)
    assert sum(timeline.counts().values()) == timeline.counts()["kernels"] == 3


def test_a_batch_is_compiled_for_its_size_and_once(accelerator):
    for num_tokens in (6, 7):
        batch = PagedBatch(accelerator, num_tokens)
        before = accelerator.flex_compilations
        batch.attend_alone()
        assert accelerator.flex_compilations == before + 1
        expect_close(batch.attend_alone(), batch.expected())
        assert accelerator.flex_compilations == before + 1


def test_tokens_that_see_nothing_get_zero(batch):
    batch.fill([Request([3], 4, 4)])
    attended = batch.attend()
    expect_close(attended, batch.expected())
    assert not attended[:, :, 4:].any()


def test_a_batch_of_nothing_but_padding_is_zero(batch):
    batch.fill([])
    assert not batch.attend().any()


def test_half_precision_is_rounded_at_the_end_only(accelerator):
    batch = PagedBatch(accelerator, ONE_GROUP, torch.bfloat16)
    assert batch.attend().dtype == torch.bfloat16
    expect_close(batch.attend(), batch.expected(), tolerance=2e-2)


def test_a_scale_of_its_own(batch):
    expect_close(batch.attend(scale=0.5), batch.expected(scale=0.5))


def test_the_result_lies_in_memory_as_the_query_does(batch):
    """The output lies in memory token after token, so it can be viewed as [tokens, heads * head
    size] without a copy."""
    by_token = batch.attend()[0].transpose(0, 1)
    assert by_token.reshape(ONE_GROUP, -1).data_ptr() == by_token.data_ptr()


def test_a_mask_may_call_another_function_and_read_an_object_and_the_head(accelerator, batch):
    class Tables:
        windows = torch.tensor([1, 3, 5, 100], dtype=torch.int32, device=accelerator.device)

    tables, causal = Tables(), batch.mask_mod()

    def near(position, kv, h):
        return position - kv < tables.windows[h]

    def mask_mod(b, h, q, slot):
        kv = batch.logical_page[batch.doc_ids[q], slot // PAGE] * PAGE + slot % PAGE
        return causal(b, h, q, slot) & near(batch.position[q], kv, h)

    attended = batch.attend(mask_mod)
    for head, window in enumerate([1, 3, 5, 100]):
        expect_close(attended[:, head], batch.expected(window)[:, head])


def test_a_mask_may_be_a_partial(batch):
    causal = batch.mask_mod()

    def without(tokens, b, h, q, slot):
        return causal(b, h, q, slot) & (batch.position[q] >= tokens)

    attended = batch.attend(functools.partial(without, 12))
    hidden = batch.position.cpu() < 12
    assert hidden.any()
    assert not hidden.all()
    assert not attended[0, :, hidden].any()
    expect_close(attended[:, :, ~hidden], batch.expected()[:, :, ~hidden])


def test_a_replay_reads_what_stands_in_the_buffers_by_then(accelerator, batch):
    graph, attended = claims.captured(accelerator, batch.attend)
    for seed, requests in enumerate(
        [
            [Request([9], 10, 3), Request([2, 1], 30, 7)],
            [Request([5, 4, 3, 2, 1, 6], 90, 10)],
            [Request([8], 1, 1), Request([9], 2, 2), Request([10], 3, 3)],
        ]
    ):
        batch.fill(requests, seed)
        graph.replay()
        expect_close(attended, batch.expected())


def test_numbers_and_addresses_of_a_mask_are_baked_into_a_graph(accelerator, batch):
    class Settings:
        window = 3
        position = batch.position

    causal = batch.mask_mod()

    def mask_mod(b, h, q, slot):
        kv = batch.logical_page[batch.doc_ids[q], slot // PAGE] * PAGE + slot % PAGE
        return causal(b, h, q, slot) & (Settings.position[q] - kv < Settings.window)

    graph, attended = claims.captured(accelerator, lambda: batch.attend(mask_mod))
    Settings.window, Settings.position = 1, torch.zeros_like(batch.position)
    graph.replay()
    expect_close(attended, batch.expected(window=3))


def test_what_would_be_compiled_during_a_capture_is_refused(accelerator, batch):
    """flex_attention raises CaptureError if it would have to compile during a capture. (The dtype
    is one that no other test uses, so it is not compiled yet.)"""
    batch.query, batch.key, batch.value = (
        t.to(torch.float16) for t in (batch.query, batch.key, batch.value)
    )
    before, graph = accelerator.flex_compilations, accelerator.graph()
    refused = r"compiled for 10 query tokens .* during a capture: call it once with these shapes"
    with pytest.raises(CaptureError, match=refused), graph.capture():
        batch.attend()
    assert accelerator.flex_compilations == before
    batch.attend()
    assert accelerator.flex_compilations == before + 1
    with graph.capture():
        attended = batch.attend()
    graph.replay()
    expect_close(attended, batch.expected(), tolerance=1e-2)


def test_other_requests_lengths_and_closures_are_compiled_once(accelerator, batch):
    batch.attend()
    before = accelerator.flex_compilations
    batch.fill([Request([3], 4, 4)])
    batch.attend(batch.mask_mod())
    for num_tokens in (2, 7, 16):
        other = PagedBatch(accelerator, num_tokens)
        expect_close(other.attend(), other.expected())
    assert accelerator.flex_compilations == before


def test_a_number_in_a_mask_is_no_constant_of_the_compiled_kernel(accelerator, batch):
    batch.attend(batch.mask_mod(window=2))
    before = accelerator.flex_compilations
    for window in (3, 12):
        expect_close(batch.attend(batch.mask_mod(window)), batch.expected(window))
    assert accelerator.flex_compilations == before


def test_a_mask_that_is_defined_anew_is_compiled_anew(accelerator, batch):
    before = accelerator.flex_compilations
    for _ in range(2):
        scope = {"__name__": __name__}
        exec("def mask_mod(b, h, q, slot):\n    return slot <= q", scope)
        batch.attend(scope["mask_mod"])
    assert accelerator.flex_compilations == before + 2


def test_tables_of_one_request_and_of_several_are_two_kinds(accelerator, batch):
    """flex_attention compiles once for a table of size 1 that a mask reads, and once for all larger
    sizes, since a size of 1 is a constant to PyTorch's compiler."""

    class Tables:
        pass

    tables = Tables()

    def mask_mod(b, h, q, slot):
        return slot <= tables.limit[q % len(tables.limit)]

    compiled = []
    for size in (1, 2, 5, 1):
        tables.limit = torch.zeros(size, dtype=torch.int32, device=accelerator.device)
        before = accelerator.flex_compilations
        batch.attend(mask_mod)
        compiled.append(accelerator.flex_compilations - before)
    assert compiled == [1, 1, 0, 0]


def test_a_recording_and_a_guard_compile_nothing_anew(accelerator, batch):
    batch.attend()
    before = accelerator.flex_compilations
    with debubble.record(accelerator) as timeline, debubble.no_host_syncs():
        batch.attend()
    with debubble.no_host_syncs():
        batch.attend()
    assert accelerator.flex_compilations == before
    assert timeline.counts()["kernels"] == 3


def test_what_is_compiled_in_a_recording_serves_outside(accelerator, batch):
    """flex_attention that was compiled inside a recording, a guard and a device context is not
    compiled again outside of them."""
    mask_mod = batch.mask_mod()

    def other_mask(b, h, q, slot):
        return mask_mod(b, h, q, slot)

    before = accelerator.flex_compilations
    with debubble.record(accelerator), debubble.no_host_syncs(), torch.device("cpu"):
        inside = batch.attend(other_mask)
    assert accelerator.flex_compilations == before + 1
    expect_close(inside, batch.expected())
    expect_close(batch.attend(other_mask), batch.expected())
    assert accelerator.flex_compilations == before + 1


def test_its_kernels_carry_the_line_of_the_call(accelerator, batch):
    arguments, block_mask = batch.arguments(), batch.block_mask()
    flex_attention(**arguments, block_mask=block_mask)
    with debubble.record(accelerator) as timeline:
        flex_attention(**arguments, block_mask=block_mask)  # the call
    lines = {event.source.text for event in timeline.events}
    assert len(lines) == 1
    assert lines.pop().endswith("# the call")


REFUSED = {
    "four dimensions": (
        {"query": lambda q: q[0]},
        {},
        r"query must have the shape .*\[4, 10, 16\]",
    ),
    "heads": ({"query": lambda q: q[:, :3]}, {}, "3 query heads can't share 2 key heads"),
    "values": (
        {"value": lambda v: v[:, :, 1:]},
        {},
        r"must both have the shape .*\[1, 2, 191, 16\]",
    ),
    "dtype": ({"key": lambda k: k.half()}, {}, "key is torch.float16.*have them alike"),
    "stride": ({"value": lambda v: v.mT.contiguous().mT}, {}, "last dimension of value .* dense"),
    "host": ({"query": lambda q: q.cpu()}, {}, "takes tensors on .*, not on cpu"),
    "head size": (
        {name: lambda t: t[..., :8] for name in ("query", "key", "value")},
        {},
        "head size of at least 16, not 8",
    ),
    "lengths": ({"query": lambda q: q[:, :, :9]}, {}, r"seq_lengths \(10, 192\).* 9 query tokens"),
    "rows": ({}, {"kv_num_blocks": lambda t: t[:, :, :0]}, "0 groups of 16 .* don't cover 10"),
    "columns": ({}, {"kv_indices": lambda t: t.long()}, "kv_indices must be dense int32"),
    "masks of heads": (
        {},
        {"kv_indices": lambda t: t.expand(1, 4, -1, -1)},
        r"\[1, 1, groups, columns\]",
    ),
    "masks of a batch": (
        {"query": lambda q: q.expand(3, -1, -1, -1)},
        {},
        r"kv_num_blocks must have the shape \[3, 1, groups\], not \[1, 1, 1\]",
    ),
    "nobody": (
        {"query": lambda q: q[:0]},
        {},
        r"with at least one token, not \[0, 4, 10, 16\]",
    ),
    "full blocks": (
        {},
        {"full_kv_num_blocks": lambda t: 1},
        "without full blocks: list every block in kv_indices",
    ),
    "tiles": ({}, {"BLOCK_SIZE": lambda size: (24, 16)}, "blocks of 24 query tokens .* 16"),
    "pages": ({}, {"BLOCK_SIZE": lambda size: (16, 80)}, "192 slots are no whole number"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_arguments_that_do_not_fit_are_refused(accelerator, batch, case):
    arguments, block_mask = batch.arguments(), batch.block_mask()
    changes, mask_changes, message = REFUSED[case]
    arguments |= {name: change(arguments[name]) for name, change in changes.items()}
    for name, change in mask_changes.items():
        setattr(block_mask, name, change(getattr(block_mask, name)))
    with pytest.raises(ValueError, match=message):
        flex_attention(**arguments, block_mask=block_mask)


def test_distributions_go_on_to_check_their_arguments(batch):
    """Distributions still check their arguments after flex_attention was compiled. PyTorch's
    compiler would switch these checks off for the whole process."""
    batch.attend()
    with pytest.raises(ValueError, match="probs"):
        torch.distributions.Categorical(torch.tensor([-1.0, 2.0]))
