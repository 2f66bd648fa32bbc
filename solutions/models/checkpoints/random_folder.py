"""Writes a checkpoint of random weights in a known model's shape: the times of loading and of steps
depend on shapes alone.

`python -m solutions.models.checkpoints.random_folder SHAPE FOLDER`
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from .folder import INDEX

SHARD = 5_000_000_000
"""The most bytes of a file of weights, as on Hugging Face's hub."""
EMBEDDING = "model.embed_tokens.weight"
BLOCK = 1 << 24
"""Number of random numbers to draw; all weights are cut from them."""

_LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "dtype": "bfloat16",
}
_QWEN3 = _LLAMA | {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True,
}
SHAPES: dict[str, dict[str, Any]] = {
    "qwen3_0.6b": _QWEN3
    | {
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151_936,
        "max_position_embeddings": 40_960,
        "rope_theta": 1_000_000.0,
    },
    "llama_3.2_1b": _LLAMA
    | {
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "vocab_size": 128_256,
        "max_position_embeddings": 8192,
        "rope_theta": 500_000.0,
        "tie_word_embeddings": True,
    },
    "llama_3_8b": _LLAMA
    | {
        "hidden_size": 4096,
        "intermediate_size": 14_336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 128_256,
        "max_position_embeddings": 8192,
        "rope_theta": 500_000.0,
    },
    "tiny": _QWEN3
    | {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "vocab_size": 128,
        "max_position_embeddings": 256,
        "rope_theta": 10_000.0,
    },
}
"""Configs of checkpoints that can be written, of Llama and Qwen3, by name."""


def tensors_of(config: dict) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yields the name and shape of each tensor of a checkpoint with this `config`, in the order of
    the layers."""
    hidden, gates, size = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    query, keys = config["num_attention_heads"] * size, config["num_key_value_heads"] * size
    yield EMBEDDING, (config["vocab_size"], hidden)
    for index in range(config["num_hidden_layers"]):
        layer = f"model.layers.{index}."
        yield f"{layer}input_layernorm.weight", (hidden,)
        yield f"{layer}self_attn.q_proj.weight", (query, hidden)
        yield f"{layer}self_attn.k_proj.weight", (keys, hidden)
        yield f"{layer}self_attn.v_proj.weight", (keys, hidden)
        yield f"{layer}self_attn.o_proj.weight", (hidden, query)
        if config["model_type"] == "qwen3":
            yield f"{layer}self_attn.q_norm.weight", (size,)
            yield f"{layer}self_attn.k_norm.weight", (size,)
        yield f"{layer}post_attention_layernorm.weight", (hidden,)
        yield f"{layer}mlp.gate_proj.weight", (gates, hidden)
        yield f"{layer}mlp.up_proj.weight", (gates, hidden)
        yield f"{layer}mlp.down_proj.weight", (hidden, gates)
    yield "model.norm.weight", (hidden,)
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", (config["vocab_size"], hidden)


def write_folder(config: dict, folder: Path, shard: int = SHARD) -> Path:
    """Writes a checkpoint of random bfloat16 weights with this `config` to `folder`, which is
    created, and returns `folder`. It has config.json, files of at most `shard` bytes unless a
    single tensor is larger, and their index."""
    folder.mkdir(parents=True, exist_ok=True)
    config = config | {"dtype": "bfloat16"}
    files: list[dict[str, tuple[int, ...]]] = [{}]
    room = shard
    for name, shape in tensors_of(config):
        nbytes = math.prod(shape) * torch.bfloat16.itemsize
        if files[-1] and nbytes > room:
            files.append({})
            room = shard
        files[-1][name] = shape
        room -= nbytes
    block = torch.randn(BLOCK, generator=torch.Generator().manual_seed(0))
    places: dict[str, str] = {}
    for number, tensors in enumerate(files, 1):
        name = f"model-{number:05}-of-{len(files):05}.safetensors"
        _write_file(folder / name, tensors, block)
        places |= dict.fromkeys(tensors, name)
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": places}, indent=1))
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    return folder


def _write_file(path: Path, tensors: dict[str, tuple[int, ...]], block: torch.Tensor) -> None:
    header, end = {}, 0
    for name, shape in tensors.items():
        begin, end = end, end + math.prod(shape) * torch.bfloat16.itemsize
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    # Data begins at a multiple of 8.
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for number, shape in enumerate(tensors.values()):
            values = _values(shape, block, number).to(torch.bfloat16).view(torch.uint8).numpy()
            missing = math.prod(shape) * torch.bfloat16.itemsize
            while missing > 0:
                missing -= file.write(values[:missing].data)


def _values(shape: tuple[int, ...], block: torch.Tensor, number: int) -> torch.Tensor:
    """Returns random numbers for the tensor with this `number` in its file, cut from the block at a
    different place for each; the caller repeats them to fill the tensor. A matrix keeps the size of
    its inputs; the numbers of a norm are around 1."""
    if len(shape) == 1:
        return 1.0 + 0.1 * block[number * 64 % (BLOCK // 2) :][: shape[0]]
    first = number * 999_983 % (BLOCK // 2)
    return block[first:] * shape[1] ** -0.5


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args(arguments)
    write_folder(SHAPES[options.shape], options.folder)


if __name__ == "__main__":
    main()
