"""Failed captures: what must not reach a graph, and steps that stay right after a failure."""

import warnings
import weakref
from dataclasses import replace

import numpy as np
import pytest
import torch

import debubble
from debubble.accelerator import CaptureError
from solutions.flex_graph import before
from solutions.flex_graph.mask import Mask
from solutions.flex_graph.piecewise import PiecewiseRunner
from solutions.flex_graph.runner import GraphRunner
from solutions.flex_graph.step import FlexStep
from solutions.flex_graph.steps.scheduled import ScheduledBatch

from .attention_only import LIMITS, AttentionOnly, Served


def decodes(seq_lens, blocks=None):
    """Returns a batch of decodes, one token for each request. All requests have the blocks
    `blocks`, or each has blocks of its own."""
    num_pages = [LIMITS.pages_of(seq_len) for seq_len in seq_lens]
    table = np.ones((len(seq_lens), max(num_pages)), np.int32)
    free = iter(range(1, 1000))
    for row, pages in zip(table, num_pages, strict=True):
        row[:pages] = [next(free) for _ in range(pages)] if blocks is None else blocks[:pages]
    return ScheduledBatch(
        token_ids=np.zeros(len(seq_lens), np.int32),
        query_lens=np.ones(len(seq_lens), np.int32),
        seq_lens=np.array(seq_lens, np.int32),
        block_table=table,
    )


GOOD = decodes([5, 17, 1])
REFUSED = {
    "too many tokens": (
        replace(GOOD, query_lens=np.array([3, 13, 1]), token_ids=np.zeros(17, np.int32)),
        "17 tokens in a step: max_num_batched_tokens is 16",
    ),
    "too many requests": (decodes([1] * 5), "5 requests in a step: max_num_seqs is 4"),
    "too long a request": (
        replace(GOOD, seq_lens=np.array([5, 49, 1])),
        "request 1 has 49 tokens: max_model_len is 48",
    ),
    "a block that is not there": (
        decodes([33, 1], blocks=[3, 4, 16]),
        "request 0 has block 16 in column 2: blocks of requests are 1 to 15",
    ),
    "the null block": (decodes([33], blocks=[3, 0, 4]), "request 0 has block 0 in column 1"),
    "a negative block": (decodes([20], blocks=[3, -1]), "request 0 has block -1 in column 1"),
    "too short a table": (
        replace(GOOD, block_table=GOOD.block_table[:, :1]),
        "request 1 has 17 tokens and 1 blocks of 16",
    ),
    "a token of no vocabulary": (
        replace(GOOD, token_ids=np.array([1, 64, 1])),
        "token 1 of the step has id 64: the vocabulary has 0 to 63",
    ),
    "more tokens than there were": (
        replace(GOOD, query_lens=np.array([1, 1, 2]), token_ids=np.zeros(4, np.int32)),
        r"request 2 has 2 tokens in this step and 1 in all \(seq_lens\)",
    ),
}


@pytest.fixture(scope="module")
def captured(accelerator):
    served = Served(accelerator)
    served.runner.capture_model()
    served.model.qkv["float32"].copy_(torch.randn(served.model.qkv["float32"].shape))
    return served.runner


@pytest.mark.parametrize("kind", REFUSED)
def test_a_batch_that_cannot_be_is_refused_before_anything_is_touched(accelerator, captured, kind):
    batch, sentence = REFUSED[kind]
    rows = captured.model.qkv["float32"]
    given = rows.clone()
    right = captured.step(GOOD).cpu()
    rows.copy_(given)
    with (
        debubble.record(accelerator) as timeline,
        pytest.raises(ValueError, match=sentence),
    ):
        captured.step(batch)
    assert timeline.events == []
    # Without a new upload the graph still reads the last good batch.
    captured.captured[16].graph.replay()
    assert torch.equal(captured.captured[16].logits[: GOOD.num_tokens].cpu(), right)


def waits_for_a_number(b, h, q, kv):
    return kv >= 0 if int(q.max()) >= 0 else kv < 0


def makes_a_tensor(b, h, q, kv):
    return kv < torch.arange(64, dtype=torch.int32, device=kv.device)[q] + 64


def lies_on_the_host(b, h, q, kv):
    return kv.cpu() >= 0


def is_no_mask(b, h, q, kv):
    return kv - q


OWN_MASKS = {
    waits_for_a_number: "makes the host wait",
    makes_a_tensor: r"makes a tensor of \[64\]",
    lies_on_the_host: "moves data to cpu|makes the host wait",
    is_no_mask: "returned torch.int32: return a tensor of torch.bool",
}


@pytest.mark.parametrize("own", OWN_MASKS, ids=lambda own: own.__name__)
def test_a_mask_that_no_kernel_can_hold_is_refused_before_there_is_a_runner(accelerator, own):
    kinds = {"layer": (torch.float32, Mask(logical_mask_mod=own))}
    model = AttentionOnly(LIMITS, accelerator.device, kinds)
    with pytest.raises((RuntimeError, ValueError), match=OWN_MASKS[own]):
        GraphRunner(model, LIMITS, accelerator.device)


def even_keys_or_itself(b, h, q, kv):
    return (kv % 2 == 0) | (kv == q)


def test_a_mask_of_one_s_own_is_captured_where_a_kernel_can_hold_it(accelerator):
    kinds = {"layer": (torch.float32, Mask(logical_mask_mod=even_keys_or_itself))}
    served = Served(accelerator, kinds=kinds)
    served.runner.capture_model()
    assert served.runner.capture_error is None
    assert all(served.steps(6))


class WaitsIn(AttentionOnly):
    """A model that makes the host wait in steps of at most `size` tokens, by reading a number from
    the device. Such steps can't be captured."""

    size = LIMITS.max_num_batched_tokens

    def forward(self, inputs, attn_metadata):
        if len(inputs.positions) <= self.size:
            assert int(inputs.positions.max()) < LIMITS.max_model_len
        return super().forward(inputs, attn_metadata)


def expect_one_warning(runner, words):
    with pytest.warns(RuntimeWarning, match=words) as warned:
        runner.capture_model()
    of_ours = [warning for warning in warned if warning.category is RuntimeWarning]
    assert len(of_ours) == 1
    assert str(runner.capture_error) in str(of_ours[0].message)


def test_where_a_capture_fails_steps_run_eagerly_and_right(accelerator):
    served = Served(accelerator, model_class=WaitsIn, capture_sizes=[4, 16])
    expect_one_warning(served.runner, "no graph for steps of 16 tokens or less")
    assert served.runner.captured == {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with debubble.record(accelerator) as timeline:
            assert all(served.steps(3))
        assert timeline.counts()["graph_launches"] == 0
        assert all(served.steps(5))


def test_graphs_captured_before_a_failure_stay_in_use(accelerator, monkeypatch):
    monkeypatch.setattr(WaitsIn, "size", 4)
    served = Served(accelerator, model_class=WaitsIn, capture_sizes=[2, 4, 16])
    expect_one_warning(served.runner, "no graph for steps of 4 tokens or less")
    assert list(served.runner.captured) == [16]
    with debubble.record(accelerator) as timeline:
        found = [served.runner.step(served.next_step()[0]) for _ in range(3)]
    assert timeline.counts()["graph_launches"] == len(found)
    assert all(served.steps(5))


def test_another_try_captures_what_failed(accelerator, monkeypatch):
    served = Served(accelerator, model_class=WaitsIn, capture_sizes=[4, 16])
    expect_one_warning(served.runner, "no graph for steps of 16 tokens or less")
    assert all(served.steps(2))
    monkeypatch.setattr(WaitsIn, "size", 0)
    served.runner.capture_model()
    assert served.runner.capture_error is None
    assert list(served.runner.captured) == [16, 4]
    assert all(served.steps(5))


def test_a_failed_capture_keeps_no_memory(accelerator):
    """All tensors of a failed capture are freed: neither the runner nor the kept error, which has a
    traceback, holds them."""
    made = []

    class MakesMemory(AttentionOnly):
        def forward(self, inputs, attn_metadata):
            attended = super().forward(inputs, attn_metadata)
            made.append(weakref.ref(attended))
            return attended[: len(inputs.positions) + int(attended[0, 0].item() > 1e9)]

    served = Served(accelerator, model_class=MakesMemory)
    expect_one_warning(served.runner, "no graph for steps of 16 tokens or less")
    assert len(made) == 2
    assert [tensor() for tensor in made] == [None, None]
    assert served.runner.capture_error.__traceback__ is not None


def test_metadata_as_it_was_leaves_a_full_graph_s_runner_eager(accelerator):
    served = Served(accelerator, builder_class=before.FlexAttentionMetadataBuilder)
    expect_one_warning(served.runner, "no graph for steps of 16 tokens or less")
    assert all(served.steps(4))


class RunsOutOfMemory(AttentionOnly):
    def forward(self, inputs, attn_metadata):
        if len(inputs.positions) < LIMITS.max_num_batched_tokens:
            raise torch.OutOfMemoryError("no memory for another graph")
        return super().forward(inputs, attn_metadata)


def test_a_warm_up_that_fails_is_a_capture_that_fails(accelerator):
    served = Served(accelerator, model_class=RunsOutOfMemory, capture_sizes=[8, 16])
    expect_one_warning(served.runner, "no graph for steps of 8 .*no memory for another graph")
    assert list(served.runner.captured) == [16]
    assert all(served.steps(4))


def test_a_failed_piece_leaves_pieces_of_other_sizes(accelerator, monkeypatch):
    from .test_piecewise import CONFIG, batches

    step = FlexStep(CONFIG, LIMITS, accelerator.device, "eager", capture_sizes=[4, 16])
    right = [step.run(batch).cpu() for batch in batches(1, 3)]
    layer = step.model.layers["layers.1"]
    plain = layer.before_attention

    def waits(hidden):
        qkv = plain(hidden)
        return qkv if len(qkv) > 4 else qkv[: int(torch.ones_like(qkv[:, 0]).sum())]

    monkeypatch.setattr(layer, "before_attention", waits)
    runner = PiecewiseRunner(step.model, LIMITS, accelerator.device, [4, 16])
    expect_one_warning(runner, "no graph for steps of 4 tokens or less")
    assert list(runner.captured) == [16]
    for batch, logits in zip(batches(1, 3), right, strict=True):
        assert torch.allclose(runner.step(batch).cpu(), logits, atol=1e-4, rtol=1e-4)


def test_a_capture_inside_another_is_refused_before_anything_is_touched(accelerator):
    """A capture inside another one raises CaptureError, and the outer one goes on: its graph
    contains nothing of the refused capture."""
    served = Served(accelerator)
    number = torch.zeros(1, device=accelerator.device)
    other = accelerator.graph()
    with other.capture():
        with pytest.raises(CaptureError, match="a graph is being captured already"):
            served.runner.capture_model()
        number.add_(1)
    assert served.runner.captured == {}
    assert served.runner.capture_error is None
    with debubble.record(accelerator) as timeline:
        other.replay()
    assert timeline.counts()["kernels"] == 1
    assert number.tolist() == [1.0]
    served.runner.capture_model()
    assert all(served.steps(3))
