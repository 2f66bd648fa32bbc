"""Tiny random models of transformers, one for each family, and their inputs."""

from __future__ import annotations

from typing import Any

import torch

SMALL = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 128,
    "max_position_embeddings": 256,
}
GROUPED = SMALL | {"num_key_value_heads": 2, "pad_token_id": 0, "eos_token_id": None}
EXPERTS = {"moe_intermediate_size": 32, "num_experts_per_tok": 2}
LANGUAGE: dict[str, dict[str, Any]] = {
    "Llama": GROUPED,
    "Mistral": GROUPED,
    "Qwen2": GROUPED,
    "Qwen3": GROUPED | {"head_dim": 16},
    "Gemma2": GROUPED | {"head_dim": 16},
    "Phi3": GROUPED,
    "GPT2": {
        **{"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 128, "n_positions": 256},
        **{"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0},
        **{"pad_token_id": 0, "eos_token_id": None, "bos_token_id": 1},
    },
    "GPTNeoX": SMALL | {"pad_token_id": 0, "eos_token_id": None},
    "Mixtral": GROUPED | {"num_local_experts": 4},
    "Qwen2Moe": GROUPED
    | EXPERTS
    | {"num_experts": 4, "shared_expert_intermediate_size": 64, "decoder_sparse_step": 1},
    "DeepseekV3": GROUPED
    | EXPERTS
    | {
        **{"n_routed_experts": 4, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1},
        **{"q_lora_rank": 32, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8},
        **{"v_head_dim": 16, "num_key_value_heads": 4},
    },
    "Qwen3Next": GROUPED
    | EXPERTS
    | {
        **{"head_dim": 16, "num_experts": 4, "shared_expert_intermediate_size": 32},
        **{"linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 16},
        **{"linear_value_head_dim": 16, "layer_types": ["linear_attention", "full_attention"]},
    },
}
"""Tiny configs of causal language models, by the beginning of their classes' names in
transformers."""
OTHERS = ("Bert", "ViT", "T5", "Whisper", "CLIP")


def language_model(library: Any, family: str) -> torch.nn.Module:
    model = "LMHeadModel" if family == "GPT2" else "ForCausalLM"
    config = getattr(library, f"{family}Config")(**LANGUAGE[family])
    return getattr(library, f"{family}{model}")(config)


def other_model(library: Any, family: str) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """Returns (model, its inputs by name) of a family that is no causal language model: Bert, ViT,
    T5, Whisper or CLIP."""
    ids = torch.randint(3, 100, (2, 8), generator=torch.Generator().manual_seed(0))
    image = {"image_size": 32, "patch_size": 8}
    layers = {k: SMALL[k] for k in list(SMALL)[:4]}
    pixels = torch.linspace(0, 1, 2 * 3 * 32 * 32).view(2, 3, 32, 32)
    if family == "Bert":
        model = library.BertModel(library.BertConfig(**SMALL, hidden_dropout_prob=0.0))
        mask = torch.tensor([[1] * 8, [1] * 5 + [0] * 3])
        return model, {"input_ids": ids, "attention_mask": mask}
    if family == "ViT":
        return library.ViTModel(library.ViTConfig(**layers, **image)), {"pixel_values": pixels}
    if family == "T5":
        sizes = {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4}
        model = library.T5ForConditionalGeneration(library.T5Config(**sizes, vocab_size=128))
        return model, {"input_ids": ids, "decoder_input_ids": ids}
    if family == "Whisper":
        sizes = {"d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "vocab_size": 128}
        heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
        tokens = {"pad_token_id": 0, "decoder_start_token_id": 1, "max_source_positions": 32}
        config = library.WhisperConfig(**sizes, **heads, **tokens, num_mel_bins=16)
        sound = torch.linspace(-1, 1, 2 * 16 * 64).view(2, 16, 64)
        return library.WhisperModel(config), {"input_features": sound, "decoder_input_ids": ids}
    config = library.CLIPConfig(
        text_config=SMALL | {"bos_token_id": 1, "eos_token_id": 2},
        vision_config=layers | image,
        projection_dim=32,
    )
    return library.CLIPModel(config), {"input_ids": ids, "pixel_values": pixels}
