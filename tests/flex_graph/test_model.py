"""The decoder that runs step by step over a paged cache, compared with one that gets whole
requests."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from solutions.flex_graph.builder import FlexAttentionMetadataBuilder
from solutions.flex_graph.mask import BIDIRECTIONAL, CAUSAL, Mask, sliding_window
from solutions.flex_graph.model.config import FlexConfig
from solutions.flex_graph.model.model import Decoder
from solutions.flex_graph.steps.inputs import StepInputs
from solutions.flex_graph.steps.limits import Limits
from solutions.flex_graph.steps.workload import Requests
from tests.common import claims

from .reference_model import ReferenceModel
from .shared_prefixes import SharingRequests

TOLERANCE = 1e-4
"""The largest error of logits around 1, in float32."""
LIMITS = Limits(max_num_seqs=4, max_num_batched_tokens=64, max_model_len=64, num_gpu_blocks=24)


class ComparedRequests:
    """Requests that a Decoder serves step by step; each step's logits are compared with the
    reference model's."""

    def __init__(self, accelerator, config=None, limits=LIMITS, masks=None):
        config = config or FlexConfig.tiny()
        self.limits, self.requests = limits, Requests(limits)
        self.model = Decoder(config, limits, accelerator.device)
        self.model.mask_of.update(masks or {})
        # A block holds what its previous request left there.
        for layer in self.model.layers.values():
            layer.attention.cache.key.fill_(3.0)
            layer.attention.cache.value.fill_(-3.0)
        self.reference = ReferenceModel(self.model)
        self.inputs = StepInputs(limits, accelerator.device, config.vocab_size)
        self.builders = {
            mask: FlexAttentionMetadataBuilder(limits, accelerator.device, mask)
            for mask in dict.fromkeys(self.model.mask_of.values())
        }

    def forward(self, num_tokens, max_seq_len):
        """Runs the model on the batch that was uploaded last, and returns its logits, [num_tokens,
        vocab_size]."""
        common = self.inputs.common(num_tokens, max_seq_len)
        built = {mask: builder.build(common) for mask, builder in self.builders.items()}
        metadata = {name: built[mask] for name, mask in self.model.mask_of.items()}
        return self.model.forward(self.inputs.model_inputs(num_tokens), metadata)

    def step(self, scheduled, padding=0):
        batch = self.requests.batch(scheduled)
        self.inputs.upload(batch)
        logits = self.forward(batch.num_tokens + padding, batch.max_seq_len)
        assert logits.shape == (batch.num_tokens + padding, self.model.config.vocab_size)
        self.expect(logits.cpu(), scheduled)

    def expect(self, logits, scheduled):
        """Checks the logits of each request's tokens against the reference, in the order of the
        batch."""
        items = scheduled.items() if isinstance(scheduled, dict) else enumerate(scheduled)
        row = 0
        for request, part in items:
            if len(part):
                token_ids = self.requests.token_ids(request, range(part.stop))
                right = self.reference.logits(token_ids)[part.start :]
                error = (logits[row : row + len(part)] - right).abs().max().item()
                assert error < TOLERANCE, (request, part, error)
                row += len(part)


def expect_served(served):
    """Serves a prompt as a whole, prompts in chunks, and decodes, mixed in four steps, and checks
    their logits."""
    served.step([range(0, 21)])
    served.step([range(21, 22), range(0, 5)])
    served.step({1: range(5, 33), 0: range(22, 23), 2: range(0, 16)})
    served.step({2: range(16, 17), 1: range(33, 34), 0: range(23, 24)})


def test_prompts_at_once_and_in_chunks_then_decodes(accelerator):
    expect_served(ComparedRequests(accelerator))


@pytest.mark.parametrize(
    ("head_size", "num_heads", "num_kv_heads"),
    [(16, 4, 4), (64, 4, 1), (128, 1, 1), (128, 8, 2)],
)
def test_heads_of_any_size_and_sharing(accelerator, head_size, num_heads, num_kv_heads):
    config = replace(
        FlexConfig.tiny(),
        num_layers=1,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_size=head_size,
    )
    served = ComparedRequests(accelerator, config)
    served.step([range(0, 19), range(0, 3)])
    served.step([range(19, 20), range(3, 4)])


def test_layers_with_windows_among_others(accelerator):
    config = replace(FlexConfig.tiny(), num_layers=3, windows=(None, 7))
    served = ComparedRequests(accelerator, config)
    masks = {"layers.0": CAUSAL, "layers.1": sliding_window(7), "layers.2": CAUSAL}
    assert served.model.mask_of == masks
    expect_served(served)


def test_a_mask_of_ones_own(accelerator):
    """Logits are right with a user's mask that hides every second key, except a query's own."""
    every_second = Mask(logical_mask_mod=lambda b, h, q, kv: (kv % 2 == 0) | (kv == q))
    served = ComparedRequests(accelerator, masks={"layers.0": every_second})
    served.step([range(0, 21)])
    served.step([range(21, 22), range(0, 5)])


def test_layers_that_see_both_ways(accelerator):
    served = ComparedRequests(
        accelerator, masks=dict.fromkeys(("layers.0", "layers.1"), BIDIRECTIONAL)
    )
    served.step([range(0, 21), range(0, 5)])


def test_tokens_that_pad_a_step_change_nothing(accelerator):
    served = ComparedRequests(accelerator)
    served.step([range(0, 9), range(0, 20)])
    caches = [layer.attention.cache for layer in served.model.layers.values()]
    before = [(cache.key.clone(), cache.value.clone()) for cache in caches]
    served.step([range(9, 10)], padding=7)
    slot = served.requests.blocks[0][0] * 16 + 9
    for cache, tensors in zip(caches, before, strict=True):
        for now, was in zip((cache.key, cache.value), tensors, strict=True):
            changed = (now != was).flatten(0, 1).flatten(1).any(1)
            assert changed.nonzero().flatten().tolist() == [slot]


def test_other_requests_in_the_same_cache(accelerator):
    served = ComparedRequests(accelerator)
    expect_served(served)
    served.requests = Requests(LIMITS, seed=5)
    expect_served(served)


def test_a_shared_prefix_is_computed_once(accelerator):
    served = ComparedRequests(accelerator)
    served.requests = SharingRequests(LIMITS)
    served.requests.share_prefix(0, 1, 32)
    served.step([range(0, 40)])
    served.step({1: range(32, 44), 0: range(40, 41)})


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.bfloat16, 0.1), (torch.float16, 0.01)], ids=str
)
def test_halves_stay_near(accelerator, dtype, tolerance):
    served = ComparedRequests(accelerator, replace(FlexConfig.tiny(), dtype=dtype))
    batch = served.requests.batch([range(0, 21), range(0, 5)])
    served.inputs.upload(batch)
    logits = served.forward(batch.num_tokens, batch.max_seq_len)
    assert logits.dtype == dtype
    right = [
        served.reference.logits(served.requests.token_ids(request, range(length)))
        for request, length in enumerate((21, 5))
    ]
    assert (logits.cpu().float() - torch.cat(right)).abs().max() < tolerance


def test_a_step_waits_for_nothing_and_uploads_nothing(accelerator):
    served = ComparedRequests(accelerator)
    batch = served.requests.batch([range(0, 9), range(0, 20)])
    served.inputs.upload(batch)
    call = lambda: served.forward(batch.num_tokens, batch.max_seq_len)
    claims.expect_no_wait(accelerator, call, pinned_uploads=0)


def test_a_layer_is_four_launches_besides_products_and_attention(accelerator):
    kernels = []
    for num_layers in (1, 3):
        served = ComparedRequests(accelerator, replace(FlexConfig.tiny(), num_layers=num_layers))
        batch = served.requests.batch([range(0, 9), range(0, 20)])
        served.inputs.upload(batch)
        counts = claims.counts_of(accelerator, lambda served=served: served.forward(29, 20))
        kernels.append(counts["kernels"] + counts["d2d"])
    layer, attention, rest = served.model.layers["layers.0"], 3, 4
    products = sum(
        kernels_of_product(accelerator, weight)
        for weight in (
            layer.qkv_proj,
            layer.o_proj,
            layer.mlp.gate_up_proj,
            layer.mlp.down_proj,
        )
    )
    assert kernels[1] - kernels[0] == 2 * (products + attention + rest)


def kernels_of_product(accelerator, weight, num_tokens=29):
    """Returns how many kernels a product of `num_tokens` rows with `weight` takes: one, or more if
    the GPU's library splits it."""
    rows = torch.ones(num_tokens, weight.shape[1], dtype=weight.dtype, device=weight.device)
    return claims.counts_of(accelerator, lambda: F.linear(rows, weight))["kernels"]


def test_a_graph_of_the_whole_step_serves_other_batches(accelerator):
    """A graph that captured the whole step gives the right logits for other batches. It has its own
    memory for values between the layers."""
    served = ComparedRequests(accelerator, replace(FlexConfig.tiny(), windows=(None, 7)))
    graph, logits = claims.captured(accelerator, lambda: served.forward(40, LIMITS.max_model_len))
    steps = [
        [range(0, 21)],
        [range(21, 22), range(0, 5)],
        {1: range(5, 33), 0: range(22, 23), 2: range(0, 11)},
        {2: range(11, 12), 1: range(33, 34), 0: range(23, 24)},
    ]
    for scheduled in steps:
        served.inputs.upload(served.requests.batch(scheduled))
        graph.replay()
        served.expect(logits.cpu(), scheduled)


def test_weights_follow_from_the_seed(accelerator):
    config = FlexConfig.tiny()
    models = [Decoder(replace(config, seed=seed), LIMITS, accelerator.device) for seed in (0, 0, 1)]
    first, same, other = (ReferenceModel(model).logits(range(10)) for model in models)
    assert torch.equal(first, same)
    assert (first - other).abs().max() > 0.1


def test_activations_stay_of_size_one(accelerator):
    config = replace(FlexConfig.tiny(), num_layers=24, hidden_size=64, vocab_size=256)
    model = Decoder(config, LIMITS, accelerator.device)
    logits = ReferenceModel(model).logits(range(200))
    assert 0.3 < logits.std() < 3.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_heads": 3, "num_kv_heads": 2}, "3 heads for 2 KV heads: it must be a multiple"),
        ({"head_size": 15}, "head size 15: rotary positions turn pairs, make it even"),
        ({"windows": ()}, r"windows \(\): give at least one"),
        ({"windows": (None, 0)}, r"windows \(None, 0\): .* at least 1 token"),
        ({"num_layers": 0}, "num_layers 0: it must be at least 1"),
        ({"dtype": torch.float64}, "weights of torch.float64: use bfloat16, float16 or float32"),
    ],
)
def test_a_shape_that_no_decoder_has_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        replace(FlexConfig.tiny(), **change)


def test_the_shapes_of_models():
    small, large = FlexConfig.small(), FlexConfig.llama_3_8b()
    assert (small.qkv_size, large.qkv_size, large.query_size) == (2304, 6144, 4096)
    assert [large.window_of_layer(i) for i in (0, 31)] == [None, None]
