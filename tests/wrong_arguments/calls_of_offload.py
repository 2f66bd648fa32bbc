"""Valid calls of the public functions of offload and flex_graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from solutions import flex_graph, offload

from .search import Call

MEMORY = ("num_blocks", "row_bytes", "num_gpu_blocks")
"""Arguments that are sizes of memory: the error for a size that is too large is the allocator's."""


def calls(accelerator: Any) -> list[Call]:
    return [*_of_offload(accelerator.device), *_of_flex_graph(accelerator.device)]


def _of_offload(device: torch.device) -> list[Call]:
    gpu = torch.zeros(4, 64, dtype=torch.int8, device=device)
    cpu = offload.pinned_blocks(4, 64)
    group = offload.KVGroup([offload.KVTensors(gpu, cpu)])
    handler = offload.SingleDirectionOffloadingHandler([group], gpu_to_cpu=False)

    def descriptors() -> dict[str, Any]:
        columns = [[cpu.data_ptr()], [gpu.data_ptr()], [64]]
        table = torch.tensor(columns * 1, dtype=torch.int64).repeat(1, 1)
        return dict(zip(("src_addrs", "dst_addrs", "sizes"), table, strict=True))

    def numbers() -> dict[str, Any]:
        return {name: np.array([0, 64]) for name in ("src", "dst", "sizes")}

    def transfer(job_id: Any, gpu_blocks: Any, cpu_blocks: Any, skip: Any) -> None:
        handler.transfer_async(job_id, gpu_blocks, cpu_blocks, skip)
        handler.wait([job_id])
        handler.get_finished()

    return [
        Call(
            offload.swap_blocks_batch,
            lambda: (
                descriptors()
                | {"is_src_access_order_any": False, "bytes_per_chunk": 64, "min_n": 1}
            ),
        ),
        Call(offload.copy_pieces, lambda: descriptors() | {"bytes_per_chunk": 64}),
        Call(
            transfer,
            lambda: {"job_id": "a", "gpu_blocks": [[1]], "cpu_blocks": [[2]], "skip": 0},
            left_out=("job_id",),
            name="transfer_async",
        ),
        Call(offload.KVTensors, lambda: {"gpu": gpu.clone(), "cpu": cpu, "copied_bytes": 32}),
        Call(offload.KVGroup, lambda: {"tensors": group.tensors, "block_size_factor": 1}),
        Call(offload.prefix_hashes, lambda: {"tokens": [1, 2, 3, 4], "block_size": 2}),
        Call(offload.merge_adjacent, numbers, left_out=("src", "dst", "sizes")),
        Call(offload.cache_path, lambda: {"gpu": "NVIDIA H200"}),
        Call(offload.DescriptorPool, lambda: {"most_buffers": 2}),
        Call(
            offload.Launch,
            lambda: {"bytes_per_chunk": 64, "num_programs": 4, "num_stages": 2, "upload": False},
        ),
        Call(offload.LRUBlockManager, lambda: {"num_blocks": 4}, MEMORY),
    ]


def _of_flex_graph(device: torch.device) -> list[Call]:
    limits = flex_graph.Limits(
        max_num_seqs=2, max_num_batched_tokens=32, max_model_len=64, num_gpu_blocks=9
    )
    requests = flex_graph.Requests(limits)
    return [
        Call(
            flex_graph.Limits,
            lambda: {
                "max_num_seqs": 2,
                "max_num_batched_tokens": 32,
                "max_model_len": 64,
                "num_gpu_blocks": 9,
                "block_size": 16,
                "q_block": 16,
            },
        ),
        Call(flex_graph.sliding_window, lambda: {"tokens": 8}),
        Call(
            flex_graph.Mask,
            lambda: {"causal": True, "sliding_window": 8, "logical_mask_mod": None},
            left_out=("logical_mask_mod",),
        ),
        Call(flex_graph.buffer_shapes, lambda: {"limits": limits}),
        Call(
            flex_graph.copy_to_persistent,
            lambda: {
                "dst": torch.zeros(4, 2, dtype=torch.int32, device=device),
                "src": torch.ones(3, 2, dtype=torch.int32, device=device),
            },
        ),
        Call(
            flex_graph.physical_to_logical_mapping,
            lambda: {
                "block_table": torch.ones(2, 3, dtype=torch.int32, device=device),
                "seq_lens": torch.ones(2, dtype=torch.int32, device=device),
                "block_size": 16,
                "num_gpu_blocks": 9,
            },
            left_out=MEMORY,
        ),
        Call(requests.batch, lambda: {"scheduled": [range(3), range(2)]}),
        Call(flex_graph.PersistentBuffers, lambda: {"limits": limits, "device": device}),
        Call(
            flex_graph.FlexAttentionMetadataBuilder,
            lambda: {"limits": limits, "device": device, "mask": flex_graph.CAUSAL},
        ),
    ]
