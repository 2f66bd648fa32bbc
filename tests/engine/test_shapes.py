"""Models of different shapes, and engines without some of the features."""

from dataclasses import replace

import pytest
import torch

from solutions.engine import Model, ModelConfig
from solutions.engine.model.architecture import Architecture
from solutions.gdn import GDNConfig

from .setting import ALL, NONE, Setting, serve, small, tokens_of

SHAPES = {
    "flex layers with and without a window": small(
        "flex", "flex", model={"windows": (None, 20)}, num_cpu_blocks=16
    ),
    "no host memory": small(num_cpu_blocks=0),
    "states and nothing else": small("gdn", "gdn"),
    "heads that share keys": small("flex", "spans", model={"num_heads": 4, "num_kv_heads": 2}),
    "no graph at all": small("spans", capture_sizes=()),
    "a graph for each size": small("spans", capture_sizes=(1, 3)),
}


@pytest.fixture(scope="module", params=SHAPES)
def setting(request, accelerator):
    return Setting.of(SHAPES[request.param], accelerator)


@pytest.mark.deep(2)
@pytest.mark.parametrize("optimizations", [NONE, ALL], ids=str)
def test_a_model_of_this_shape_answers_as_the_reference_does(setting, optimizations):
    """A model of this shape gives the reference's answers. The first request is longer than the
    attention window, and runs again from its cached prefix."""
    engine = setting.engine(optimizations)
    images = [(4, 12)] if setting.config.model.num_layers_of("spans") else []
    first, second = setting.asked(30, 1, images, max_tokens=4), setting.asked(9, 2, max_tokens=3)
    outputs = serve(engine, [first, second]) + serve(engine, [first])
    assert tokens_of(outputs) == setting.answers([first, second, first])
    assert [output.num_cached for output in outputs] == [0, 0, 16]


def test_delta_net_layers_have_the_shape_that_the_model_says():
    shape = {"gdn_k_heads": 2, "gdn_v_heads": 6, "gdn_head_size": 8, "gdn_value_size": 32}
    config = small("gdn", "flex", model=shape | {"gdn_conv_width": 3, "norm_eps": 1e-3}).model
    assert config.gdn(5) == GDNConfig(
        num_layers=2,
        hidden_size=32,
        num_k_heads=2,
        num_v_heads=6,
        head_k_dim=8,
        head_v_dim=32,
        conv_width=3,
        num_slots=5,
        norm_eps=1e-3,
        dtype=torch.float32,
    )
    assert replace(config, gdn_value_size=None).gdn(5).head_v_dim == 8


def test_with_head_norms_it_doesn_t_matter_how_long_queries_and_keys_are(accelerator):
    config = small("spans", model={"architecture": Architecture(head_norms=True)})
    (layer,) = Model(config, accelerator.device).layers.values()
    generator = torch.Generator().manual_seed(0)
    qkv = torch.randn(3, config.model.qkv_size, generator=generator).to(accelerator.device)
    places = torch.tensor([16, 17, 18], dtype=torch.int32, device=accelerator.device)
    found = []
    for factor in (1.0, 3.0):
        queries = layer.attention.turned_queries(factor * qkv, places, places)
        found.append((queries.clone(), layer.cache.key.clone()))
    for one, other in zip(*found, strict=True):
        assert one.any() and torch.allclose(one, other, atol=1e-4)


def test_layers_take_turns_in_the_pattern():
    config = ModelConfig.hybrid()
    assert [config.kind_of_layer(index) for index in range(5)] == [
        *("gdn", "flex", "gdn", "spans"),
        "gdn",
    ]
    assert ModelConfig.llama_3_8b().num_layers_of("gdn") == 0
