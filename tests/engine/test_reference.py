"""The reference, compared with references that were written for one kind of layer."""

from copy import copy
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from solutions.engine import Model, Reference, SamplingParams
from solutions.engine.model.reference import allowed_pairs, gated_delta_net
from tests.flex_graph.reference_model import ReferenceModel
from tests.gdn.reference_layer import ReferenceLayer

from .setting import small


@pytest.mark.parametrize("windows", [(None,), (None, 7)], ids=str)
def test_flex_layers_are_the_decoder_of_flex_graph(accelerator, windows):
    config = small("flex", "flex", model={"windows": windows, "num_heads": 4, "num_kv_heads": 2})
    model = Model(config, accelerator.device)
    tokens = list(range(30))
    decoder = copy(model)
    decoder.config = config.model
    found, right = Reference(model).logits(tokens), ReferenceModel(decoder).logits(tokens)
    assert found.shape == (30, config.model.vocab_size)
    assert torch.allclose(found, right, atol=1e-5)


def test_a_gated_delta_net_layer_is_that_of_gdn(accelerator):
    config = small("gdn", model={"gdn_k_heads": 2, "gdn_v_heads": 4})
    model = Model(config, accelerator.device)
    layer = model.layers["layers.0"].delta_net
    right = ReferenceLayer(layer)
    hidden = torch.randn(21, config.model.hidden_size, generator=torch.Generator().manual_seed(0))
    found = gated_delta_net(hidden, right.weights, config.model)
    assert torch.allclose(found, right.run(hidden)[0], atol=1e-5)


def test_an_images_tokens_see_one_another_and_nobody_sees_ahead_else(accelerator):
    reference = Reference(Model(small("spans"), accelerator.device))
    tokens = [1, 2, 70, 71, 72, 3, 4]
    changed = [1, 2, 70, 71, 73, 3, 4]
    differs = [
        (reference.logits(tokens, images) != reference.logits(changed, images)).any(1).tolist()
        for images in ([], [(2, 4)])
    ]
    assert differs[0] == [False] * 4 + [True] * 3
    assert differs[1] == [False] * 2 + [True] * 5


def test_pairs_that_may_attend():
    right = torch.tensor(
        [[1, 0, 0, 0, 0], [0, 1, 1, 0, 0], [0, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 1, 1]]
    )
    found = allowed_pairs(5, window=2, images=[(1, 2)])
    right[1, 0] = 1
    assert torch.equal(found, right.bool())


def test_the_reference_never_says_a_bad_word(accelerator):
    reference = Reference(Model(small("flex"), accelerator.device))
    free = reference.generate([1, 2, 3], SamplingParams(max_tokens=3))
    token, pair = free[0], free[1:]
    without_token, without_pair = (
        reference.generate([1, 2, 3], SamplingParams(max_tokens=3, bad_words=[word]))
        for word in ([token], pair)
    )
    assert token not in without_token
    assert pair not in map(list, pairwise(without_pair))
    # Nothing is forbidden up to the place where the pair would end first.
    first_end = [*map(list, pairwise(free))].index(pair) + 1
    assert without_pair[:first_end] == free[:first_end]


def test_weights_follow_from_the_seed(accelerator):
    config = small("gdn", "flex")
    other = replace(config, model=replace(config.model, seed=1))
    first, same, different = (
        Reference(Model(each, accelerator.device)).logits([1, 2, 3])
        for each in (config, config, other)
    )
    assert torch.equal(first, same)
    assert not torch.allclose(first, different)
