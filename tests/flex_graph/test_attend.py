"""The kernel that computes the attention of few tokens, in place of FlexAttention."""

from dataclasses import replace

import pytest
import torch

from solutions.common.decoder.attend import MOST_TOKENS, attends
from solutions.flex_graph.mask import BIDIRECTIONAL, Mask
from solutions.flex_graph.model.config import FlexConfig
from tests.common import claims

from .test_model import LIMITS, ComparedRequests, expect_served

TINY = replace(FlexConfig.tiny(), has_kernel_for_few=True)
LAUNCHES_LESS = 3
"""A launch of the kernel stands for FlexAttention's three and one that rotates."""


def test_chunks_and_decodes_between_prompts_of_flex_attention(accelerator):
    expect_served(ComparedRequests(accelerator, TINY))


@pytest.mark.parametrize(
    ("head_size", "num_heads", "num_kv_heads"),
    [(16, 4, 4), (64, 7, 1), (128, 6, 2), (32, 16, 1), (48, 2, 1), (16, 17, 1)],
)
def test_heads_of_any_size_and_sharing(accelerator, head_size, num_heads, num_kv_heads):
    heads = {"num_heads": num_heads, "num_kv_heads": num_kv_heads, "head_size": head_size}
    served = ComparedRequests(accelerator, replace(TINY, num_layers=1, **heads))
    served.step([range(0, 11), range(0, 3)])
    served.step([range(11, 12), range(3, 9)])


@pytest.mark.parametrize("window", [1, 5, 16, 40])
def test_windows_shorter_and_longer_than_a_page(accelerator, window):
    served = ComparedRequests(accelerator, replace(TINY, num_layers=3, windows=(None, window)))
    served.step([range(0, 37)])
    served.step([range(37, 46), range(0, 6)])
    served.step([range(46, 47), range(6, 7)])


def test_a_long_request_is_split_and_added(accelerator):
    """The keys of one token, in parts of whole tiles, with one tile that is filled in part."""
    limits = replace(LIMITS, max_model_len=1024, max_num_batched_tokens=1024, num_gpu_blocks=140)
    served = ComparedRequests(accelerator, replace(TINY, num_layers=1), limits)
    served.step([range(0, 719), range(0, 128)])
    served.step([range(719, 720), range(128, 129)])
    served.step([range(720, 722), range(129, 131)])
    assert not served.model.layers["layers.0"].attention.arrived.any()


def test_a_token_is_rotated_by_its_own_position_and_its_heads_are_normalised(accelerator):
    from solutions.common.decoder.rotate_and_cache import HeadNorms

    served = {
        few: ComparedRequests(accelerator, replace(TINY, has_kernel_for_few=few))
        for few in (True, False)
    }
    caches = {}
    for few, one in served.items():
        for layer in one.model.layers.values():
            random = torch.Generator().manual_seed(2)
            query, key = (torch.rand(2, 16, generator=random) + 0.5).to(accelerator.device)
            layer.attention.norms = HeadNorms(query, key, 1e-6)
        one.inputs.upload(one.requests.batch([range(0, 9), range(0, 4)]))
        logits = one.forward(13, 9)
        caches[few] = [logits, one.model.layers["layers.1"].attention.cache.key]
    for with_kernel, without in zip(*caches.values(), strict=True):
        assert (with_kernel - without).abs().max().item() < 1e-4


@pytest.mark.parametrize("mask", [BIDIRECTIONAL, Mask(logical_mask_mod=lambda b, h, q, kv: q >= 0)])
def test_other_masks_stay_with_flex_attention(accelerator, mask):
    served = ComparedRequests(accelerator, TINY, masks={"layers.0": mask, "layers.1": mask})
    served.step([range(0, 9), range(0, 3)])
    assert launches(served, accelerator) == launches(
        ComparedRequests(accelerator, masks={"layers.0": mask, "layers.1": mask}), accelerator
    )


def launches(served, accelerator, num_tokens=4):
    served.inputs.upload(served.requests.batch([range(num_tokens)]))
    counts = claims.counts_of(accelerator, lambda: served.forward(num_tokens, num_tokens))
    return counts["kernels"]


def test_a_layer_takes_three_launches_less_for_few_tokens_only(accelerator):
    for num_tokens, less in ((MOST_TOKENS, 2 * LAUNCHES_LESS), (MOST_TOKENS + 1, 0)):
        with_kernel, without = (
            launches(ComparedRequests(accelerator, config), accelerator, num_tokens)
            for config in (TINY, FlexConfig.tiny())
        )
        assert without - with_kernel == less


def test_a_graph_serves_other_batches_and_rows_that_pad_it_are_zero(accelerator):
    served = ComparedRequests(accelerator, replace(TINY, windows=(None, 7)))
    served.step([range(0, 30), range(0, 21)])
    graph, logits = claims.captured(accelerator, lambda: served.forward(8, LIMITS.max_model_len))
    for scheduled in ([range(30, 31)], [range(31, 34), range(21, 22)], {2: range(0, 8)}):
        served.inputs.upload(served.requests.batch(scheduled))
        graph.replay()
        served.expect(logits.cpu(), scheduled)
        assert logits.cpu().isfinite().all()


def test_tokens_that_pad_a_step_change_nothing(accelerator):
    served = ComparedRequests(accelerator, TINY)
    served.step([range(0, 9), range(0, 20)])
    cache = served.model.layers["layers.0"].attention.cache
    before = cache.key.clone(), cache.value.clone()
    served.step([range(9, 10)], padding=7)
    slot = served.requests.blocks[0][0] * 16 + 9
    for now, was in zip((cache.key, cache.value), before, strict=True):
        changed = (now != was).flatten(0, 1).flatten(1).any(1)
        assert changed.nonzero().flatten().tolist() == [slot]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_halves_stay_near_flex_attention(accelerator, dtype):
    logits = []
    for few in (True, False):
        config = replace(TINY, dtype=dtype, has_kernel_for_few=few)
        served = ComparedRequests(accelerator, config)
        served.inputs.upload(served.requests.batch([range(0, 9), range(0, 5)]))
        logits.append(served.forward(14, 9).cpu())
    assert (logits[0] - logits[1]).abs().max() < 0.1


def test_the_kernel_takes_few_tokens_and_heads_that_are_a_power_of_two(accelerator):
    attention = ComparedRequests(accelerator, TINY).model.layers["layers.0"].attention
    qkv = torch.zeros(MOST_TOKENS + 1, 64, device=accelerator.device)
    assert attends(qkv[1:], attention.cache, 2)
    assert not attends(qkv, attention.cache, 2)
    assert not attends(qkv[1:], attention.cache, 17)
