"""Models of other shapes, and engines that lack what others have."""

import pytest

from solutions.engine import ModelConfig

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


@pytest.mark.parametrize("optimizations", [ALL, NONE], ids=str)
def test_a_model_of_this_shape_answers_as_the_reference_does(setting, optimizations):
    """Longer than the window, and the second one twice."""
    engine = setting.engine(optimizations)
    images = [(4, 12)] if setting.config.model.num_layers_of("spans") else []
    first, second = setting.asked(30, 1, images, max_tokens=4), setting.asked(9, 2, max_tokens=3)
    outputs = serve(engine, [first, second]) + serve(engine, [first])
    assert tokens_of(outputs) == setting.answers([first, second, first])
    assert [output.num_cached for output in outputs] == [0, 0, 16]


def test_layers_take_turns_in_the_pattern():
    config = ModelConfig.hybrid()
    assert [config.kind_of_layer(index) for index in range(5)] == [
        *("gdn", "flex", "gdn", "spans"),
        "gdn",
    ]
    assert ModelConfig.llama_3_8b().num_layers_of("gdn") == 0
