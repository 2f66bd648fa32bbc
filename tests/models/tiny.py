"""Tiny checkpoints of each family, made with transformers. All weights are random, so a missing
norm or a wrongly rotated head changes the result."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

os.environ.setdefault("HF_HUB_OFFLINE", "1")

SHAPE: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 96,
    "max_position_embeddings": 256,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
LLAMA_3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
VISION = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 32,
    "patch_size": 8,
    "vision_use_head": False,
}


@dataclass(frozen=True)
class Tiny:
    """A checkpoint in `folder`, and the transformers model in float32 that it was saved from."""

    folder: Path
    model: Any

    @torch.no_grad()
    def logits(self, tokens: list[int]) -> torch.Tensor:
        """Returns transformers' logits after each token, [len(tokens), vocab_size]."""
        return self.model(torch.tensor([tokens])).logits[0].float()

    @torch.no_grad()
    def greedy(self, prompt: list[int], num_tokens: int) -> list[int]:
        out = self.model.generate(
            torch.tensor([prompt]), max_new_tokens=num_tokens, do_sample=False
        )
        return out[0, len(prompt) :].tolist()


def config_of(family: str, **changes: Any) -> Any:
    import transformers

    shape = SHAPE | {"num_hidden_layers": 2} | changes
    if family == "llama":
        return transformers.LlamaConfig(**{"rope_parameters": LLAMA_3_ROPE} | shape)
    if family == "mistral":
        return transformers.MistralConfig(**{"sliding_window": 6} | shape)
    if family == "qwen2":
        windows = {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1}
        return transformers.Qwen2Config(**windows | shape)
    if family == "qwen3":
        return transformers.Qwen3Config(**{"tie_word_embeddings": True} | shape)
    if family == "qwen3_next":
        types = ["linear_attention", "full_attention"]
        return transformers.Qwen3NextConfig(
            **{
                "layer_types": types,
                "linear_num_key_heads": 2,
                "linear_num_value_heads": 4,
                "linear_key_head_dim": 16,
                "linear_value_head_dim": 16,
                "num_experts": 5,
                "num_experts_per_tok": 2,
                "moe_intermediate_size": 24,
                "shared_expert_intermediate_size": 40,
            }
            | shape
        )
    text = {
        "sliding_window": 6,
        "query_pre_attn_scalar": 24,
        "layer_types": ["sliding_attention", "full_attention"],
    } | shape
    if family == "gemma3_text":
        return transformers.Gemma3TextConfig(**text)
    assert family == "gemma3"
    return transformers.Gemma3Config(
        text_config=text,
        vision_config=VISION,
        mm_tokens_per_image=4,
        image_token_index=90,
        boi_token_index=91,
        eoi_token_index=92,
        eos_token_id=None,
        pad_token_id=None,
    )


MODELS = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_next": "Qwen3NextForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM",
    "gemma3": "Gemma3ForConditionalGeneration",
}
FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "qwen3_next", "gemma3_text")
"""The families of text models; "gemma3" sees images as well."""


@torch.no_grad()
def randomise(model: Any) -> None:
    """Gives all weights random values, so that each weight influences the answer."""
    for name, weight in model.named_parameters():
        if weight.dim() > 1:
            columns = weight[0].numel() if weight.dim() < 3 else weight.shape[-1]
            weight.normal_(0.0, 1.0 * columns**-0.5)
        elif "A_log" not in name and "dt_bias" not in name:
            weight.add_(0.3 * torch.randn_like(weight))


def make(family: str, folder: Path, shard: str = "5GB", **changes: Any) -> Tiny:
    """Makes a tiny model of this family with random weights, saves it in `folder`, in files of at
    most `shard`, and returns both. `changes` are fields of its config."""
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(3)
    model = getattr(transformers, MODELS[family])(config_of(family, **changes)).eval()
    randomise(model)
    model.generation_config.eos_token_id = None
    model.save_pretrained(folder, max_shard_size=shard)
    return Tiny(folder, model)


@cache
def prompt_of(length: int, seed: int = 0) -> list[int]:
    """Returns `length` random token ids of text, without image tokens."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(88, (length,), generator=generator).tolist()
