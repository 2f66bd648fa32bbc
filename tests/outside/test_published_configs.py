"""Published config.json files, with their sizes shrunk, answer as transformers does or are refused
in a sentence; so does each field of each served family, set to other values."""

from __future__ import annotations

import json
import tomllib
from copy import deepcopy
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch

from solutions.engine import SamplingParams
from solutions.engine.model.config import EngineConfig
from solutions.engine.model.model import Model
from solutions.models import from_pretrained
from solutions.models.checkpoints.load import (
    FAMILY_OF,
    family_of,
    limits_for,
    model_config_of,
    read_folder,
)

from ..models.plain_folder import packed
from ..models.tiny import prompt_of, randomise

transformers = pytest.importorskip("transformers")
CONFIGS = Path(__file__).parent / "configs"
SOURCES = tomllib.loads((CONFIGS / "sources.toml").read_text())
SERVED = [name for name, source in SOURCES.items() if source["answer"] == "served"]
REFUSED = [name for name, source in SOURCES.items() if source["answer"] == "refused"]
SHRUNK = {
    **{"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "head_dim": 16},
    **{"vocab_size": 96, "sliding_window": 6, "num_experts": 5, "num_experts_per_tok": 2},
    **{"moe_intermediate_size": 24, "shared_expert_intermediate_size": 40},
    **{"linear_num_key_heads": 2, "linear_num_value_heads": 4},
    **{"linear_key_head_dim": 16, "linear_value_head_dim": 16},
}
"""The small sizes of a decoder, for fields that a config has. Missing fields keep transformers'
default."""
VISION = {
    **{"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1},
    **{"num_attention_heads": 2, "image_size": 28, "patch_size": 7},
}
SIZES = {"max_model_len": 64, "max_num_seqs": 1, "max_num_batched_tokens": 24}
"""Limits under which a prompt takes two steps."""


def shrunk(published: dict[str, Any]) -> dict[str, Any]:
    """Returns the config with small sizes, and everything else as published."""
    config = deepcopy(published)
    text = config.get("text_config", config)
    ratio = text.get("num_attention_heads", 1) // text.get("num_key_value_heads", 1)
    text.update({name: size for name, size in SHRUNK.items() if text.get(name) is not None})
    if "head_dim" not in text:
        text["hidden_size"] = 64
    if "num_key_value_heads" in text:
        text["num_key_value_heads"] = max(1, 4 // ratio)
    num_layers = {"Qwen3NextForCausalLM": 4}.get(config["architectures"][0], 2)
    text["num_hidden_layers"] = 6 if "Gemma3" in config["architectures"][0] else num_layers
    if "layer_types" in text:
        text["layer_types"] = text["layer_types"][: text["num_hidden_layers"]]
    if "vision_config" in config:
        config["vision_config"] |= VISION
        config["mm_tokens_per_image"] = 4
    return config


def write(config: dict[str, Any], folder: Path) -> Any:
    """Returns the model of transformers that `config` describes, in float32 with random weights,
    and saves it in `folder`."""
    folder.mkdir(exist_ok=True)
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    described = transformers.AutoConfig.from_pretrained(folder)
    model_class = getattr(transformers, config["architectures"][0])
    torch.manual_seed(3)
    model = model_class._from_config(
        described, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    randomise(model)
    model.save_pretrained(folder)
    # transformers has written the config in its own form.
    path.write_text(json.dumps(config))
    return model


def expect_the_same(model: Any, folder: Path) -> None:
    """Checks that the engine's greedy tokens are those of `model`, and that its logits differ by
    1e-3 at most."""
    engine = from_pretrained(folder, dtype=torch.float32, **SIZES)
    seen, sample = [], engine.runner.sampler.sample

    def noted(rows: Any, sampled: Any) -> Any:
        seen.append(sampled.logits.cpu().float())
        return sample(rows, sampled)

    engine.runner.sampler.sample = noted
    prompt = prompt_of(30)
    (tokens,) = engine.generate([prompt], SamplingParams(max_tokens=3))
    logits = torch.cat([each for each in seen if len(each)])
    right = logits_of(model, [*prompt, *tokens])[len(prompt) - 1 : -1]
    assert (logits[: len(right)] - right).abs().max() < 1e-3
    assert tokens == right.argmax(1).tolist()


@torch.no_grad()
def logits_of(model: Any, tokens: list[int]) -> torch.Tensor:
    return model(torch.tensor([tokens])).logits[0].float()


def test_at_least_40_configs_each_have_a_source():
    assert {path.stem for path in CONFIGS.glob("*.json")} == set(SOURCES)
    assert len(SOURCES) >= 40 and len(SERVED) >= 20
    for source in SOURCES.values():
        assert {"repository", "commit", "path", "licence"} <= set(source)


@pytest.mark.parametrize("name", REFUSED)
def test_a_relative_is_refused_in_a_sentence_before_weights_are_read(accelerator, tmp_path, name):
    published = json.loads((CONFIGS / f"{name}.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(published))
    (tmp_path / "model.safetensors").write_bytes(packed({}, b""))
    with pytest.raises(ValueError) as refusal:
        from_pretrained(tmp_path)
    sentence = str(refusal.value)
    assert "config.json" in sentence and "\n" not in sentence and len(sentence) < 300
    reasons = ("quantization_config", published["architectures"][0])
    assert any(reason in sentence for reason in reasons), sentence


@pytest.mark.deep(12)
@pytest.mark.parametrize("name", SERVED)
def test_a_published_config_answers_as_transformers(accelerator, tmp_path, name):
    config = shrunk(json.loads((CONFIGS / f"{name}.json").read_text()))
    expect_the_same(write(config, tmp_path / "folder"), tmp_path / "folder")


BASES: dict[str, dict[str, Any]] = {
    "llama": {"architectures": ["LlamaForCausalLM"], "model_type": "llama"},
    "mistral": {"architectures": ["MistralForCausalLM"], "model_type": "mistral"},
    "qwen2": {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"},
    "qwen3": {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"},
    "qwen3_next": {"architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next"},
    "gemma3_text": {"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text"},
}
ROPES: list[Any] = [
    {"rope_type": "default", "rope_theta": 500.0},
    {"rope_type": "linear", "factor": 4.0},
    {"type": "linear", "factor": 4.0, "rope_theta": 500.0},
    {"rope_type": "dynamic", "factor": 4.0},
    {
        **{"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
        "original_max_position_embeddings": 32,
    },
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "beta_fast": 4.0},
    {"rope_type": "yarn", "factor": 4.0},
    {"rope_type": "yarn", "factor": 4.0, "truncate": False, "attention_factor": 1.5},
    {"rope_type": "yarn", "factor": 4.0, "mscale": 0.5, "mscale_all_dim": 2.0},
    {"rope_type": "default", "partial_rotary_factor": 0.5},
    {"rope_type": "linear", "factor": 4.0, "partial_rotary_factor": 0.5},
    {
        "full_attention": {"rope_type": "linear", "factor": 4.0},
        "sliding_attention": {"rope_type": "default"},
    },
    {
        "full_attention": {"rope_type": "yarn", "factor": 4.0, "truncate": False},
        "sliding_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 300.0},
    },
    {"full_attention": {"rope_type": "default", "rope_theta": 700.0}},
]
OTHERS: dict[str, list[Any]] = {
    "rope_parameters": ROPES,
    "rope_scaling": ROPES,
    "rope_theta": [500.0],
    "rope_local_base_freq": [500.0],
    "partial_rotary_factor": [0.5, 1.0],
    "original_max_position_embeddings": [16],
    "hidden_act": ["gelu", "gelu_pytorch_tanh"],
    "hidden_activation": ["silu", "gelu"],
    "layer_types": [
        ["full_attention"] * 4,
        ["sliding_attention", "full_attention"] * 2,
        ["linear_attention", "full_attention"] * 2,
    ],
    "sliding_window": [3, None],
    "use_sliding_window": [True],
    "max_window_layers": [0, 1],
    "sliding_window_pattern": [2],
    "full_attention_interval": [2],
    "mlp_only_layers": [[1]],
    "is_causal": [False],
    "per_layer_config": [{"1": {"sliding_window": 2}}],
    "attn_logit_softcapping": [2.0],
    "final_logit_softcapping": [2.0],
    "num_attention_heads": [2, 8],
    "num_key_value_heads": [1, 4, None],
    "head_dim": [8, 32, None],
    "num_hidden_layers": [3],
    "query_pre_attn_scalar": [7],
    "max_position_embeddings": [512],
    "dtype": ["float32"],
    "model_type": ["mistral"],
}
"""Other values of fields, including fields that transformers reads without declaring them. A field
that is missing here gets values by its type."""


def base_of(family: str) -> dict[str, Any]:
    """Returns a small config of the family, without the fields that a size doesn't need."""
    names = list(SHRUNK) if family == "qwen3_next" else list(SHRUNK)[:5]
    base = BASES[family] | {name: SHRUNK[name] for name in names if name != "sliding_window"}
    base |= {"num_key_value_heads": 2, "num_hidden_layers": 4}
    if family == "gemma3_text":
        # By default none of four layers sees all tokens, and each sees the whole prompt.
        base |= {"sliding_window_pattern": 4, "sliding_window": 6}
    if family == "mistral":
        base |= {"sliding_window": 6}
    return base


def class_of(family: str) -> type:
    return type(transformers.AutoConfig.for_model(BASES[family]["model_type"]))


def other_values(family: str, name: str) -> list[Any]:
    if name in OTHERS:
        return OTHERS[name]
    default = getattr(class_of(family)(), name)
    value = base_of(family).get(name, default)
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, 2 * value]
    return [0.25] if isinstance(value, float) else [True, 3, ["x"]]


FIELDS = [
    (family, name)
    for family in BASES
    for name in sorted({each.name for each in fields(class_of(family))} | {*OTHERS})
    if name not in ("architectures", "transformers_version")
]


def plan_of(folder: Path) -> Any:
    """Returns the engine's plan for a folder: its model, and where each tensor goes. Raises
    ValueError for a folder that it refuses."""
    checkpoint = read_folder(folder)
    config = model_config_of(checkpoint, torch.float32)
    limits = limits_for(checkpoint, **SIZES)
    model = Model(EngineConfig(model=config, limits=limits), torch.device("meta"))
    places = [
        (each.attribute, each.shift, each.scale, [(s.name, s.shape) for s in each.sources])
        for each in family_of(checkpoint).weights(model, checkpoint)
    ]
    return config, places


@pytest.fixture(scope="module")
def proved(tmp_path_factory):
    """Returns a function that returns pairs, for each family, of transformers' logits and a plan
    that gives them. The first pair is that of `base_of(family)`."""
    pairs = {}

    def of(family):
        if family not in pairs:
            folder = tmp_path_factory.mktemp(family)
            model = write(base_of(family), folder)
            expect_the_same(model, folder)
            pairs[family] = [(logits_of(model, prompt_of(30)), plan_of(folder))]
        return pairs[family]

    return of


@pytest.mark.deep(120)
@pytest.mark.parametrize("family, name", FIELDS)
def test_a_field_is_served_or_refused_or_changes_nothing(
    accelerator, tmp_path, proved, family, name
):
    pairs = proved(family)
    for number, value in enumerate(other_values(family, name)):
        folder = tmp_path / str(number)
        try:
            model = write(base_of(family) | {name: value}, folder)
            theirs = logits_of(model, prompt_of(30))
        except Exception:
            # transformers can't run it.
            continue
        try:
            ours = plan_of(folder)
        except ValueError as refusal:
            assert "config.json" in str(refusal), refusal
            continue
        if any(torch.equal(theirs, logits) and ours == plan for logits, plan in pairs):
            continue
        expect_the_same(model, folder)
        pairs.append((theirs, ours))


@pytest.mark.parametrize("family", BASES)
def test_fields_that_a_config_leaves_out_have_the_defaults_of_transformers(family):
    declared = class_of(family).__dataclass_fields__
    defaults = FAMILY_OF[BASES[family]["architectures"][0]].DEFAULTS
    for name, value in defaults.items():
        if name in declared:
            assert declared[name].default == value, name
