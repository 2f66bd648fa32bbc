"""Runs nano-vllm on random weights: 2 layers, hidden size 256, fp16, 8 requests of 32 tokens.

Its tokens have to be those that transformers takes greedily. Where the package flash_attn is
missing, its two functions are stand-ins of plain PyTorch, which this says when it starts.
"""

from __future__ import annotations

import atexit
import importlib.machinery
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import torch
import torch.nn.functional as F

REQUESTS, TOKENS = 8, 32
DTYPE = torch.float16
"""The type in which nano-vllm's norms are right: they write in place into the result of `.float()`,
which is a copy of fp16 but the input itself of fp32."""


def flash_attn_varlen_func(
    q, k, v, max_seqlen_q, cu_seqlens_q, max_seqlen_k, cu_seqlens_k, softmax_scale, causal,
    block_table=None,
):  # fmt: skip
    """Returns causal attention within each part. q is [rows, heads, head], k and v are [rows, kv
    heads, head]."""
    assert causal and block_table is None, "the stand-in has no prefixes"
    rows = torch.arange(len(q), device=q.device)
    part = torch.searchsorted(cu_seqlens_q, rows, right=True)
    mask = (part[:, None] == part) & (rows[:, None] >= rows)
    heads = [tensor.transpose(0, 1).unsqueeze(0) for tensor in (q, k, v)]
    out = F.scaled_dot_product_attention(
        *heads, attn_mask=mask, scale=softmax_scale, enable_gqa=True
    )
    return out.squeeze(0).transpose(0, 1)


def flash_attn_with_kvcache(q, k_cache, v_cache, cache_seqlens, block_table, softmax_scale, causal):
    """Returns attention to the caches. q is [batch, 1, heads, head], the caches are [blocks, block
    size, kv heads, head]."""
    assert causal and q.shape[1] == 1
    gathered = [cache[block_table.clamp(min=0)].flatten(1, 2) for cache in (k_cache, v_cache)]
    positions = torch.arange(gathered[0].shape[1], device=q.device)
    mask = (positions < cache_seqlens[:, None])[:, None, None]
    heads = [tensor.transpose(1, 2) for tensor in (q, *gathered)]
    out = F.scaled_dot_product_attention(
        *heads, attn_mask=mask, scale=softmax_scale, enable_gqa=True
    )
    return out.transpose(1, 2)


def stand_in() -> None:
    print("flash_attn is not installed: its functions are stand-ins of plain PyTorch")
    module = ModuleType("flash_attn")
    module.__spec__ = importlib.machinery.ModuleSpec("flash_attn", None)
    module.flash_attn_varlen_func = flash_attn_varlen_func
    module.flash_attn_with_kvcache = flash_attn_with_kvcache
    sys.modules["flash_attn"] = module


def save_model(folder: Path):
    """Saves a checkpoint and a tokenizer; returns the model, on the CPU."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=512,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=256,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        tie_word_embeddings=False,
        dtype=DTYPE,
        bos_token_id=0,
        eos_token_id=1,
        initializer_range=0.2,
    )
    model = Qwen3ForCausalLM(config).to(DTYPE).eval()
    model.save_pretrained(folder)
    words = Tokenizer(models.WordLevel({f"w{number}": number for number in range(512)}, "w0"))
    PreTrainedTokenizerFast(tokenizer_object=words, eos_token="w1").save_pretrained(folder)
    return model


def greedy(model, prompt: list[int]) -> list[int]:
    ids = torch.tensor([prompt], device="cpu")
    with torch.no_grad():
        out = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=TOKENS,
            min_new_tokens=TOKENS,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
    return out[0, len(prompt) :].tolist()


def main() -> None:
    if find_spec("flash_attn") is None:
        stand_in()
    from nanovllm import LLM, SamplingParams

    prompts = [[2 + (7 * row + 3 * at) % 510 for at in range(9 + row)] for row in range(REQUESTS)]
    with tempfile.TemporaryDirectory() as folder:
        model = save_model(Path(folder))
        sampling = SamplingParams(temperature=1e-5, max_tokens=TOKENS, ignore_eos=True)
        llm = LLM(folder, max_num_batched_tokens=256, max_num_seqs=REQUESTS, max_model_len=256)
        outputs = llm.generate(prompts, sampling, use_tqdm=False)
        atexit.unregister(llm.exit)
        llm.exit()
    for prompt, output in zip(prompts, outputs, strict=True):
        expected = greedy(model, prompt)
        assert output["token_ids"] == expected, (output["token_ids"], expected)
    print(f"{REQUESTS} requests of {TOKENS} tokens: as transformers")


if __name__ == "__main__":
    main()
