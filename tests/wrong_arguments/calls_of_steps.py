"""Valid calls of the public functions of pinned_h2d and sync_free."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from solutions import pinned_h2d, sync_free

from .search import Call

TOKENS, VOCAB = 5, 40
MEMORY = ("max_num_seqs", "max_ranges", "steps_in_flight", "num_requests", "max_tokens", "shape",
          "depth")  # fmt: skip
"""Arguments that are sizes of memory: the error for a size that is too large is the allocator's."""


def calls(accelerator: Any) -> list[Call]:
    return [*_of_sync_free(accelerator.device), *_of_pinned_h2d(accelerator.device)]


def _of_sync_free(device: torch.device) -> list[Call]:
    def on_device(values: Any, dtype: torch.dtype = torch.int32) -> torch.Tensor:
        return torch.as_tensor(np.asarray(values), dtype=dtype).to(device)

    def conv() -> dict[str, Any]:
        return {
            "x": torch.ones(TOKENS, 2, device=device),
            "weight": torch.ones(2, 3, device=device),
            "bias": torch.ones(2, device=device),
            "conv_states": torch.zeros(3, 2, 2, device=device),
            "query_start_loc": on_device([0, 3, 5]),
            "cache_indices": on_device([0, 1]),
            "has_initial_state": on_device([False, False], torch.bool),
            "activation": "silu",
            "metadata": sync_free.prepare_conv_metadata(np.array([0, 3, 5]), device),
        }

    def counted() -> dict[str, Any]:
        return {
            "req_indices": [0, 2],
            "all_token_ids": on_device(np.ones((3, 6))),
            "prompt_lens": [1, 2],
            "prefill_lens": [2, 3],
            "prompt_bin_mask": on_device(np.full((3, 2), 7)),
            "output_bin_counts": on_device(np.full((3, VOCAB), 7)),
        }

    def batch() -> sync_free.NgramBatch:
        lengths = np.array([1, 2], np.int32)
        return sync_free.NgramBatch(("a", "b"), np.ones((3, 4), np.int32), lengths)

    logits = {"logits": torch.zeros(2, VOCAB, device=device)}
    group = sync_free.DataParallelGroup.alone(64)
    exchanged = torch.tensor([[1], [2], [0], [1]], dtype=torch.int32)
    return [
        Call(sync_free.causal_conv1d_fn, conv),
        Call(sync_free.bincount, counted),
        Call(
            sync_free.clear_rows, lambda: {"rows": [0, 2], "tables": [on_device(np.ones((3, 2)))]}
        ),
        Call(
            sync_free.apply_bad_words,
            lambda: {
                "logits": torch.zeros(2, VOCAB, device=device),
                "bad_words_token_ids": {0: [[1, 2]], 1: [[3]]},
                "past_tokens_ids": [[1], [2]],
            },
        ),
        Call(
            sync_free.gather_specific_token_logprobs,
            lambda: {**logits, "requested": {0: [1, 2]}, "sampled": on_device([3, 4])},
        ),
        Call(
            sync_free.compute_token_logprobs, lambda: {**logits, "token_ids": on_device([[3], [4]])}
        ),
        Call(sync_free.compute_token_ranks, lambda: {**logits, "token_ids": on_device([3, 4])}),
        Call(
            sync_free._init_model_kwargs,
            lambda: {
                "token_type_starts": {0: 1},
                "seq_lens": on_device([3, 2]),
                "optimistic_seq_lens_cpu": torch.tensor([3, 2], dtype=torch.int32),
                "num_reqs": 2,
            },
        ),
        Call(
            sync_free._prepare_kv_sharing_fast_prefill,
            lambda: {
                "buffer": on_device(np.zeros(8)),
                "logits_indices": on_device([1, 2]),
                "num_padded": 4,
            },
        ),
        Call(
            sync_free._run_ar,
            lambda: {
                "should_ubatch": True,
                "orig_num_tokens": 3,
                "padded_num_tokens": 8,
                "cudagraph_mode": 1,
                "group": group,
            },
            left_out=("group",),
        ),
        Call(sync_free.agreement_of, lambda: {"state": exchanged.clone()}),
        Call(
            sync_free.async_tensor_h2d,
            lambda: {
                "data": [1, 2],
                "device": device,
                "dtype": torch.int32,
                "out": on_device([0, 0]),
            },
        ),
        Call(
            sync_free.prepare_conv_metadata,
            lambda: {
                "query_start_loc_cpu": np.array([0, 3, 5]),
                "device": device,
                "cache_indices_cpu": np.array([0, 1]),
            },
        ),
        Call(
            sync_free.update_ngram_gpu_tensors_incremental,
            lambda: {
                "batch": batch(),
                "token_ids": on_device(np.ones((3, 4))),
                "num_tokens": on_device([1, 1, 1]),
                "prev_req_id_to_row": {"a": 1, "b": 0},
                "new_req_ids": set(),
            },
        ),
        Call(
            sync_free.upload_packed,
            lambda: {"arrays": {"a": np.ones(2, np.int32)}, "device": device},
        ),
        Call(
            sync_free.upload_plans,
            lambda: {"plans": {"p": {"a": np.ones(2, np.int32)}}, "device": device, "ring": None},
        ),
        Call(sync_free.ReadBack, lambda: {"tensor": on_device([1, 2])}),
    ]


def _of_pinned_h2d(device: torch.device) -> list[Call]:
    requests = pinned_h2d.PagedRequests(2, 64)
    batch = requests.batch([range(4), range(4)], device)
    ranges = {0: [(1, 2)]}
    sizes = {"max_num_seqs": 3, "max_ranges": 2, "device": device}
    options = {"steps_in_flight": 2, "for_graphs": True}
    buffer = pinned_h2d.PrefixRangeBuffer(**sizes, **options)
    ring = pinned_h2d.StagingRing((4,), torch.int64, 2)

    def attention() -> dict[str, Any]:
        cache = torch.zeros(requests.num_blocks, 16, 1, 16, device=device)
        return {
            "query": torch.zeros(8, 2, 16, device=device),
            "key_cache": cache,
            "value_cache": cache.clone(),
            "batch": batch,
            "ranges": torch.zeros(2, 1, 2, dtype=torch.int32, device=device),
            "scale": 0.25,
            "window": 8,
            "clamp_to_window": True,
            "output": torch.zeros(8, 2, 16, device=device),
        }

    return [
        Call(pinned_h2d.prefix_attention, attention),
        Call(pinned_h2d.check_ranges, lambda: {"ranges": dict(ranges)}),
        Call(
            pinned_h2d.compute_mm_prefix_range_tensor,
            lambda: {"ranges": dict(ranges), "num_seqs": 2, "device": device},
        ),
        Call(
            pinned_h2d.range_tensors_by_micro_batch,
            lambda: {"ranges": dict(ranges), "batches": [batch], "upload": buffer.update},
            left_out=("upload",),
        ),
        Call(pinned_h2d.PrefixRangeBuffer, lambda: {**sizes, **options}, left_out=MEMORY),
        Call(buffer.update, lambda: {"ranges": dict(ranges), "num_seqs": 2}),
        Call(pinned_h2d.ModelRunner, lambda: {**sizes, **options}, left_out=MEMORY),
        Call(
            pinned_h2d.PagedRequests,
            lambda: {"num_requests": 2, "max_tokens": 64, "block_size": 16, "seed": 0},
            left_out=MEMORY,
        ),
        Call(
            requests.batch,
            lambda: {
                "scheduled": [range(4)],
                "device": device,
                "first_request": 0,
                "num_seqs": 2,
            },
        ),
        Call(
            pinned_h2d.StagingRing,
            lambda: {"shape": (4,), "dtype": torch.int64, "depth": 2},
            left_out=MEMORY,
        ),
        Call(
            ring.upload,
            lambda: {
                "values": torch.ones(4, dtype=torch.int64),
                "destination": torch.zeros(4, dtype=torch.int64, device=device),
            },
        ),
    ]
