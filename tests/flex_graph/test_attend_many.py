"""The kernel that computes the attention of many tokens, in place of FlexAttention."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from solutions.common.decoder.attend_many import attends_many
from solutions.common.decoder.kv_cache import KVCache
from solutions.engine import Engine, EngineConfig
from solutions.engine.requests.step_view import StepView
from solutions.flex_graph.mask import BIDIRECTIONAL, Mask
from solutions.flex_graph.model.config import FlexConfig
from tests.common import claims

from .test_model import LIMITS, ComparedRequests, expect_served

TINY = replace(FlexConfig.tiny(), has_kernel_for_many=True)
ROOMY = replace(LIMITS, max_model_len=512, max_num_batched_tokens=512, num_gpu_blocks=128)


def test_chunks_and_decodes_between_prompts(accelerator):
    expect_served(ComparedRequests(accelerator, TINY))


@pytest.mark.parametrize(
    ("head_size", "num_heads", "num_kv_heads"),
    [(16, 4, 4), (64, 7, 1), (128, 6, 2), (32, 16, 1), (256, 2, 1), (48, 2, 1), (16, 17, 1)],
)
def test_heads_of_any_size_and_sharing(accelerator, head_size, num_heads, num_kv_heads):
    heads = {"num_heads": num_heads, "num_kv_heads": num_kv_heads, "head_size": head_size}
    served = ComparedRequests(accelerator, replace(TINY, num_layers=1, **heads))
    served.step([range(0, 29), range(0, 3)])
    served.step([range(29, 30), range(3, 23)])


@pytest.mark.parametrize("window", [1, 5, 16, 40])
def test_windows_shorter_and_longer_than_a_page(accelerator, window):
    served = ComparedRequests(accelerator, replace(TINY, num_layers=3, windows=(None, window)))
    served.step([range(0, 37)])
    served.step([range(37, 60), range(0, 6)])
    served.step([range(60, 61), range(6, 47)])


@pytest.mark.parametrize("window", [None, 100])
def test_requests_of_several_tiles_at_any_offset(accelerator, window):
    config = replace(TINY, num_layers=1, windows=(window,))
    served = ComparedRequests(accelerator, config, ROOMY)
    served.step([range(0, 65), range(0, 1), range(0, 192), range(0, 127)])
    served.step([range(65, 66), range(1, 130), range(192, 300), range(127, 255)])


def test_random_batches(accelerator):
    served = ComparedRequests(accelerator, replace(TINY, num_layers=1), ROOMY)
    random, lengths = np.random.default_rng(3), [0] * ROOMY.max_num_seqs
    for _ in range(4):
        added = random.integers(0, 110, len(lengths))
        ends = [length + more for length, more in zip(lengths, added, strict=True)]
        served.step([range(*part) for part in zip(lengths, ends, strict=True)])
        lengths = ends


@pytest.mark.parametrize("mask", [BIDIRECTIONAL, Mask(logical_mask_mod=lambda b, h, q, kv: q >= 0)])
def test_other_masks_stay_with_flex_attention(accelerator, mask):
    masks = {"layers.0": mask, "layers.1": mask}
    served = ComparedRequests(accelerator, TINY, masks=masks)
    served.step([range(0, 29), range(0, 3)])
    plain = ComparedRequests(accelerator, masks=masks)
    assert launches(served, accelerator) == launches(plain, accelerator)


def launches(served, accelerator, num_tokens=20):
    served.inputs.upload(served.requests.batch([range(num_tokens)]))
    counts = claims.counts_of(accelerator, lambda: served.forward(num_tokens, num_tokens))
    return counts["kernels"]


def test_a_layer_takes_one_launch_for_attention(accelerator):
    with_kernel, without = (
        launches(ComparedRequests(accelerator, config), accelerator)
        for config in (TINY, FlexConfig.tiny())
    )
    # FlexAttention splits the keys of so few tokens, in three launches for each of two layers.
    assert without - with_kernel == 4


def test_a_graph_serves_other_batches_and_rows_that_pad_it_are_zero(accelerator):
    served = ComparedRequests(accelerator, replace(TINY, windows=(None, 7)))
    served.step([range(0, 30), range(0, 21)])
    graph, logits = claims.captured(accelerator, lambda: served.forward(40, LIMITS.max_model_len))
    for scheduled in ([range(30, 31)], [range(31, 64), range(21, 22)], {2: range(0, 8)}):
        served.inputs.upload(served.requests.batch(scheduled))
        graph.replay()
        served.expect(logits.cpu(), scheduled)
        assert logits.cpu().isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_halves_stay_near_flex_attention(accelerator, dtype):
    logits = []
    for many in (True, False):
        config = replace(TINY, dtype=dtype, has_kernel_for_many=many)
        served = ComparedRequests(accelerator, config)
        served.inputs.upload(served.requests.batch([range(0, 29), range(0, 25)]))
        logits.append(served.forward(54, 29).cpu())
    assert (logits[0] - logits[1]).abs().max() < 0.1


def test_the_kernel_takes_heads_that_are_a_power_of_two(accelerator):
    cache = ComparedRequests(accelerator, TINY).model.layers["layers.0"].attention.cache
    assert attends_many(2, cache)
    assert not attends_many(17, cache)
    assert not attends_many(2, KVCache(2, 16, 1, 48, torch.float32, accelerator.device))


@pytest.mark.parametrize(("kernel", "fewer"), [(True, 2), (False, 0)])
def test_an_engine_lists_no_pages_that_no_layer_reads(accelerator, kernel, fewer):
    plain = EngineConfig.tiny()
    model = replace(plain.model, pattern=("flex",), num_layers=1, has_kernel_for_many=kernel)
    engine = Engine(replace(plain, model=model, num_cpu_blocks=0, capture_sizes=()))
    builders = engine.runner.backends["flex"].builders.values()
    assert [builder.buffers.lists_pages for builder in builders] == [not fewer]
    view = StepView.of_prefills(20, 1, plain.limits)
    built = claims.counts_of(accelerator, lambda: engine.runner._metadata(view))["kernels"]
    for builder in builders:
        builder.buffers.lists_pages = True
    everything = claims.counts_of(accelerator, lambda: engine.runner._metadata(view))["kernels"]
    assert everything - built == fewer
