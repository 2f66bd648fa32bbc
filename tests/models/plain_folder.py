"""A folder of a tiny Llama, written byte by byte, so that any of it can be made wrong."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SIZES = {"hidden": 32, "inner": 48, "query": 64, "keys": 32, "vocab": 96}


def config() -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "float32",
        "hidden_act": "silu",
        "hidden_size": SIZES["hidden"],
        "intermediate_size": SIZES["inner"],
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "vocab_size": SIZES["vocab"],
        "max_position_embeddings": 128,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10_000.0,
        "tie_word_embeddings": False,
    }


def shapes() -> dict[str, list[int]]:
    hidden, inner, vocab = SIZES["hidden"], SIZES["inner"], SIZES["vocab"]
    layer = "model.layers.0."
    return {
        "model.embed_tokens.weight": [vocab, hidden],
        f"{layer}input_layernorm.weight": [hidden],
        f"{layer}self_attn.q_proj.weight": [SIZES["query"], hidden],
        f"{layer}self_attn.k_proj.weight": [SIZES["keys"], hidden],
        f"{layer}self_attn.v_proj.weight": [SIZES["keys"], hidden],
        f"{layer}self_attn.o_proj.weight": [hidden, SIZES["query"]],
        f"{layer}post_attention_layernorm.weight": [hidden],
        f"{layer}mlp.gate_proj.weight": [inner, hidden],
        f"{layer}mlp.up_proj.weight": [inner, hidden],
        f"{layer}mlp.down_proj.weight": [hidden, inner],
        "model.norm.weight": [hidden],
        "lm_head.weight": [vocab, hidden],
    }


@dataclass
class PlainFolder:
    """The contents of a checkpoint folder: change them, then call `write`."""

    path: Path
    config: dict[str, Any] = field(default_factory=config)
    header: dict[str, Any] = field(default_factory=dict)
    data: bytes = b""

    @classmethod
    def of(cls, path: Path) -> PlainFolder:
        folder = cls(path)
        random = np.random.default_rng(0)
        for name, shape in shapes().items():
            folder.add(name, random.normal(0, 0.2, shape).astype("<f4"))
        return folder

    def add(self, name: str, values: np.ndarray, dtype: str = "F32") -> None:
        offsets = [len(self.data), len(self.data) + values.nbytes]
        self.header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": offsets}
        self.data += values.tobytes()

    def write(self, name: str = "model.safetensors") -> Path:
        self.path.mkdir(exist_ok=True)
        (self.path / "config.json").write_text(json.dumps(self.config))
        (self.path / name).write_bytes(packed(self.header, self.data))
        return self.path


def write_words(path: Path, words: list[str], template: str) -> None:
    """Writes a tokenizer for text of `words`, whose ids are their places in the list, and the chat
    template, into the folder `path`. Skips the test without tokenizers or transformers."""
    tokenizers = pytest.importorskip("tokenizers")
    pytest.importorskip("transformers")
    vocabulary = {word: number for number, word in enumerate([*words, "?"])}
    model = tokenizers.models.WordLevel(vocabulary, unk_token="?")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(path / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": template}
    (path / "tokenizer_config.json").write_text(json.dumps(settings))


def packed(header: Any, data: bytes) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data
