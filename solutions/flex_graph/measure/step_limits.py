"""Measures the limits of a step: reading the weights once, and building its metadata on the
device."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path

import torch
import triton
import triton.language as tl
from rich.console import Console

from debubble.accelerator import Accelerator, launch
from solutions.measure.benchmark import fits, write_record

from ..buffers import buffer_shapes
from ..builder import FlexAttentionMetadataBuilder
from ..model.config import FlexConfig
from ..steps.batch import CommonAttentionMetadata
from ..steps.limits import Limits

NAME = "flex_graph_limits"
REQUESTS, BLOCKS = 256, 1024
"""Size of the batch whose metadata is built: number of requests, with one token each, and of pages
per request."""
BLOCK, PROGRAMS = 4096, 132 * 8
LOAD_MS = 5.0
"""Milliseconds of work queued before a measured call, longer than the host needs to queue the
call."""
RUNS = 21


def measure_limits(accelerator: Accelerator, console: Console, folder: Path | None) -> None:
    """Prints how long it takes to read the weights of Llama-3-8B once and to build a step's
    metadata, and writes it to `folder`/NAME.json if a folder is given. Without a large enough GPU
    it prints that it measures nothing."""
    weights = FlexConfig.llama_3_8b().weight_bytes
    if not fits(accelerator, 2 * weights):
        console.print("The limits of a step are measured on a GPU with 32 GB or more.")
        return
    reading_us = read_once_us(accelerator, weights)
    building_us = build_us(accelerator)
    console.print(
        f"The weights of Llama-3-8B that a step reads, {weights / 1e9:.1f} GB, are read once in "
        f"{reading_us / 1e3:.2f} ms.\nThe metadata of {REQUESTS} requests with {BLOCKS} blocks is "
        f"built in {building_us:.0f} µs."
    )
    if folder is None:
        return
    contents = {
        "weights": {"bytes": weights, "read_once_us": reading_us},
        "build": {
            "requests": REQUESTS,
            "blocks": BLOCKS,
            "device_us": building_us,
            "buffers": buffer_shapes(build_limits()),
        },
    }
    path = write_record(folder / f"{NAME}.json", NAME, accelerator, contents)
    console.print(f"written to {path}")


def read_once_us(accelerator: Accelerator, nbytes: int) -> float:
    """Returns the device time in µs to read `nbytes` bytes once, far more than an L2 cache
    holds."""
    num_blocks = nbytes // (4 * BLOCK)
    numbers = torch.zeros(num_blocks * BLOCK, dtype=torch.int32, device=accelerator.device)
    seen = torch.zeros(PROGRAMS, dtype=torch.int32, device=accelerator.device)
    read = lambda: launch(read_once_kernel, (PROGRAMS,), numbers, seen, num_blocks, BLOCK=BLOCK)
    return _device_us(accelerator, read)


@triton.jit
def read_once_kernel(numbers, seen, num_blocks, BLOCK: tl.constexpr):
    """Reads all of `numbers`, [num_blocks * BLOCK] int32, once, each program in strides of the
    grid, and writes a number for each program to `seen`, so that no read is optimised away."""
    program, programs = tl.program_id(0).to(tl.int64), tl.num_programs(0)
    together = tl.zeros([BLOCK], tl.int32)
    for block in range(program, num_blocks, programs):
        # A load whose result is not used would be removed.
        together ^= tl.load(numbers + block * BLOCK + tl.arange(0, BLOCK))
    tl.store(seen + program, tl.xor_sum(together, 0))


def build_limits() -> Limits:
    """Returns limits exactly as large as the batch whose metadata is built."""
    return Limits(
        max_num_seqs=REQUESTS,
        max_num_batched_tokens=REQUESTS,
        max_model_len=16 * BLOCKS,
        num_gpu_blocks=REQUESTS * BLOCKS + 1,
    )


def build_us(accelerator: Accelerator) -> float:
    """Returns the device time in µs of one build of the metadata. Every block moves to another
    request or place in each build."""
    limits, device = build_limits(), accelerator.device
    builder = FlexAttentionMetadataBuilder(limits, device)
    ones = torch.arange(REQUESTS + 1, dtype=torch.int32, device=device)
    seq_lens = torch.full((REQUESTS,), limits.max_model_len, dtype=torch.int32, device=device)
    steps = [
        CommonAttentionMetadata(
            query_start_loc=ones,
            seq_lens=seq_lens,
            block_table=_shuffled_blocks(limits, device),
            num_actual_tokens=REQUESTS,
            max_seq_len=limits.max_model_len,
        )
        for _ in range(2)
    ]

    def build() -> None:
        builder.build(steps[0])
        steps.reverse()

    return _device_us(accelerator, build)


def _shuffled_blocks(limits: Limits, device: torch.device) -> torch.Tensor:
    """Returns a block table of all blocks in random order, [REQUESTS, BLOCKS] int32: each block
    belongs to one request."""
    blocks = torch.randperm(limits.num_gpu_blocks - 1, device=device).add_(1)
    return blocks.to(torch.int32).view(REQUESTS, BLOCKS)


def _device_us(accelerator: Accelerator, call: Callable[[], object]) -> float:
    """Returns the median device time of `call` in µs. A load is queued before it, so that no launch
    is late."""
    call()
    times = []
    for _ in range(RUNS):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        accelerator.synchronize()
        accelerator.sleep(LOAD_MS)
        first.record()
        call()
        last.record()
        accelerator.synchronize()
        times.append(first.elapsed_time(last) * 1e3)
    return statistics.median(times)
