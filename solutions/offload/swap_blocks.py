"""The swap kernel: copies many pieces of memory, from addresses to addresses, in one launch.

Pieces and their parts form one flat list, which the programs share in turn, so that short lists of
long pieces and long lists of short ones keep every program busy. A program loads the next parts
before the last one has arrived; otherwise it would wait for the link at every turn.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from debubble.accelerator import Accelerator, ByAddress, Work, current, launch

from .choice.presets import UPSTREAM
from .dma import copy_batch
from .paths.compiled_once import compiled_once
from .paths.descriptors import (
    VECTOR,
    WORD,
    Columns,
    Descriptors,
    next_power_of_2,
)
from .paths.reach import check_reach
from .paths.uploads import staged, table_of, uploaded

MOST_CHUNKS = 1 << 30
"""The most chunks in one launch: the kernel counts them in 32 bits, and steps beyond the last
one."""
SMALLEST_CHUNK = 16
"""The smallest chunk, in bytes, that `Launch.for_pieces` chooses."""
LARGEST_CHUNK = 8192


@triton.jit(
    # One compiled kernel serves any number of pieces, and lists at any address.
    do_not_specialize=["num_jobs", "stride", "chunks_per_job"],
    do_not_specialize_on_alignment=["src_addrs", "dst_addrs", "sizes"],
)
def _swap_blocks_kernel(
    src_addrs,  # [num_jobs] int64, in device or pinned host memory, as are dst_addrs and sizes
    dst_addrs,  # [num_jobs] int64
    sizes,  # [num_jobs] int64, bytes: multiples of 8
    num_jobs,
    stride,  # from one number of a list to the next
    chunks_per_job,  # chunks of the largest job
    WORDS: tl.constexpr,  # words of 8 bytes in a chunk
    VECTOR: tl.constexpr,  # all addresses and sizes are multiples of 16
    STAGES: tl.constexpr,  # chunks that a program has in flight
):
    """Copies pieces of memory ("jobs"), each cut into chunks: a program copies every
    num_programs-th chunk of all jobs. num_jobs * chunks_per_job fits into an int32."""
    lane = tl.arange(0, WORDS)
    first_item, num_items = tl.program_id(0), num_jobs * chunks_per_job
    for item in tl.range(first_item, num_items, tl.num_programs(0), num_stages=STAGES):
        job = item // chunks_per_job
        # int64 for jobs beyond 16 GiB, whose words an int32 can't count.
        first = (item - job * chunks_per_job).to(tl.int64) * WORDS
        source = tl.load(src_addrs + job * stride).to(tl.pointer_type(tl.int64)) + first + lane
        target = tl.load(dst_addrs + job * stride).to(tl.pointer_type(tl.int64)) + first + lane
        exists = lane < tl.load(sizes + job * stride) // 8 - first
        if VECTOR:
            # Set on the pointers and the mask: on an address as a number the compiler would forget
            # it.
            source = tl.multiple_of(tl.max_contiguous(source, 2), 16)
            target = tl.multiple_of(tl.max_contiguous(target, 2), 16)
            exists = tl.max_constancy(exists, 2)
        tl.store(target, tl.load(source, mask=exists), mask=exists)


COMPILED = compiled_once(_swap_blocks_kernel)


@dataclass(frozen=True, slots=True)
class Launch:
    """The settings with which the kernel is launched. On an H200 the defaults were the fastest at
    most sizes."""

    bytes_per_chunk: int = LARGEST_CHUNK
    """Bytes that a program moves at a time: a power of two, at least 8."""
    num_programs: int = 16
    """Number of programs. 16 fill the link as well as 64 do, and slow down the steps beside them
    less: see the benchmark's loads beside steps."""
    num_stages: int = 3
    upload: bool = False
    """True if pinned descriptors are uploaded too, and not read in place over the link."""

    def __post_init__(self) -> None:
        nbytes = self.bytes_per_chunk
        if nbytes < WORD or nbytes & (nbytes - 1):
            raise ValueError(
                f"bytes_per_chunk is {nbytes}: it must be a power of two, and at least {WORD}"
            )

    @classmethod
    def for_pieces(cls, nbytes: int, upload: bool = False) -> Launch:
        """Returns the settings for pieces of up to `nbytes` bytes: no chunk is much larger than a
        piece."""
        chunk = max(next_power_of_2(nbytes), SMALLEST_CHUNK)
        return cls(min(chunk, LARGEST_CHUNK), upload=upload)

    @property
    def num_warps(self) -> int:
        return 8 if self.bytes_per_chunk > 4096 else 4


def swap_blocks_batch(
    src_addrs: torch.Tensor,
    dst_addrs: torch.Tensor,
    sizes: torch.Tensor,
    is_src_access_order_any: bool = False,
    *,
    bytes_per_chunk: int,
    min_n: int = UPSTREAM.min_n,
) -> None:
    """Copies sizes[i] bytes from address src_addrs[i] to dst_addrs[i], each a CPU int64 tensor [N],
    on the current stream, and the host never waits (vLLM #42212).

    Fewer than `min_n` pieces are a DMA batch, which can't run on the default stream;
    `is_src_access_order_any` applies only to it. More are one launch of a kernel, which moves
    `bytes_per_chunk` bytes at a time, a power of two of at least 8. The kernel reads pinned
    descriptors in place: leave them unchanged until the copies are done. All other descriptors are
    uploaded at once, and may be changed at once.

    Raises ValueError, naming the descriptor, before anything is copied, for tensors that don't fit,
    sizes below 0, sizes or addresses that are no multiples of 8, targets that overlap, and memory
    that is neither on the device nor pinned (a DMA batch still accepts pageable host memory).
    """
    # Checked for short lists too, so that a wrong value doesn't fail for long lists only.
    Launch(bytes_per_chunk)
    if sizes.numel() < min_n:
        Descriptors.of(src_addrs, dst_addrs, sizes).check_for_kernel()
        copy_batch(src_addrs, dst_addrs, sizes, is_src_access_order_any)
    else:
        copy_pieces(src_addrs, dst_addrs, sizes, bytes_per_chunk)


def copy_pieces(
    src_addrs: torch.Tensor,
    dst_addrs: torch.Tensor,
    sizes: torch.Tensor,
    bytes_per_chunk: int = LARGEST_CHUNK,
) -> None:
    """Copies sizes[i] bytes from address src_addrs[i] to address dst_addrs[i], by one launch on the
    current stream (vLLM #42212).

    All three are int64 [N] in pinned host memory, where the kernel reads them when it runs; N and
    sizes may be 0. Sources and targets lie in pinned host memory or on the device. A program moves
    `bytes_per_chunk` bytes at a time: a power of two, at least 8.

    Raises ValueError, before anything is copied, for a size or an address that is no multiple of 8.
    Its text names the first one: "descriptor 5: ...".
    """
    columns, how = (src_addrs, dst_addrs, sizes), Launch(bytes_per_chunk)
    descriptors = Descriptors.of(*columns)
    descriptors.check_for_kernel()
    check_reach(current(), descriptors)
    copy_by_kernel(current(), columns, descriptors, how)


DEFAULT = Launch()


def launch_swap(
    accelerator: Accelerator,
    src_addrs: torch.Tensor,
    dst_addrs: torch.Tensor,
    sizes: torch.Tensor,
    how: Launch = DEFAULT,
) -> None:
    """Copies by the kernel, for any number of pieces, what three CPU int64 tensors [N] describe, as
    in swap_blocks_batch. Nothing is checked: a wrong address ends the work of the process on a
    GPU."""
    columns = (src_addrs, dst_addrs, sizes)
    copy_by_kernel(accelerator, columns, Descriptors.of(*columns), how)


def copy_by_kernel(
    accelerator: Accelerator, columns: Columns, descriptors: Descriptors, how: Launch
) -> None:
    """Launches the kernel without checks. `columns`, int64 [N] each, are the tensors of
    `descriptors`.

    Uneven sizes that take more than a chunk are cut into chunks first, since a short job would keep
    as many programs busy as the longest. They are then uploaded, even from pinned memory: pass
    pieces of at most `how.bytes_per_chunk` bytes to have them read in place.
    """
    _, smallest, longest = descriptors.extent
    if longest == 0:
        return
    must_be_cut = longest > how.bytes_per_chunk and smallest < longest
    if must_be_cut:
        longest, descriptors = how.bytes_per_chunk, descriptors.cut(how.bytes_per_chunk)
    if must_be_cut or not _can_be_read_in_place(columns, descriptors):
        columns = uploaded(accelerator, staged(accelerator, descriptors))
    elif how.upload:
        table = table_of(columns)
        columns = uploaded(
            accelerator, staged(accelerator, descriptors) if table is None else table
        )
    _launch(columns, descriptors, -(-longest // how.bytes_per_chunk), how)


def _can_be_read_in_place(columns: Columns, descriptors: Descriptors) -> bool:
    first, second, third = columns
    if descriptors.start is not None:  # Only the driver knows what is pinned: it is called once.
        return first.is_pinned()
    if not first.stride() == second.stride() == third.stride():
        return False
    return first.is_pinned() and second.is_pinned() and third.is_pinned()


def _launch(columns: Columns, descriptors: Descriptors, chunks_per_job: int, how: Launch) -> None:
    num_chunks = len(descriptors) * chunks_per_job
    if num_chunks > MOST_CHUNKS:
        raise ValueError(
            f"{len(descriptors)} pieces of {chunks_per_job} chunks each: at most {MOST_CHUNKS} "
            f"chunks go into one launch, so make chunks of more than {how.bytes_per_chunk} bytes"
        )
    launch(
        _swap_blocks_kernel if current().modelled else COMPILED,
        (min(how.num_programs, num_chunks),),
        *columns,
        len(descriptors),
        columns[0].stride(0),
        chunks_per_job,
        WORDS=how.bytes_per_chunk // WORD,
        VECTOR=how.bytes_per_chunk >= VECTOR and descriptors.are_multiples(VECTOR),
        STAGES=how.num_stages,
        num_warps=how.num_warps,
        work=lambda: Work(by_address=ByAddress(*descriptors.dense())),
    )
