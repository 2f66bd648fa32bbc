"""The swap kernel moves exactly the bytes of its descriptors."""

import numpy as np
import pytest
import torch

from debubble.accelerator import ByAddress, Work, launch
from solutions.offload import Descriptors
from solutions.offload.swap_blocks import _swap_blocks_kernel

from . import memory


def run(swap, columns=None, *, num_programs=5, bytes_per_chunk=4096, vector=False, stages=3):
    """Launches the swap kernel on the pieces of `swap`. Returns the descriptor columns that it
    reads; keep them until it is done."""
    columns = columns or swap.pinned_descriptors
    pieces = Descriptors.of(*swap.descriptors)
    launch(
        _swap_blocks_kernel,
        (num_programs,),
        *columns,
        len(pieces),
        columns[0].stride(0),
        -(-int(pieces.sizes.max()) // bytes_per_chunk),
        WORDS=bytes_per_chunk // 8,
        VECTOR=vector,
        STAGES=stages,
        num_warps=4,
        work=lambda: Work(by_address=ByAddress(pieces.sources, pieces.targets, pieces.sizes)),
    )
    return columns


def expect_copied(accelerator, sizes, *, to_device=True, shift=0, **options):
    swap = memory.swap(accelerator, sizes, to_device=to_device, shift=shift)
    _held = run(swap, **options)
    swap.expect_copied()


@pytest.mark.parametrize("num_words", range(1, 14))
def test_tails_of_every_length(accelerator, num_words):
    expect_copied(accelerator, [8 * num_words] * 3, bytes_per_chunk=32)


@pytest.mark.parametrize("num_vectors", range(1, 10))
def test_tails_of_vectors(accelerator, num_vectors):
    expect_copied(accelerator, [16 * num_vectors] * 3, bytes_per_chunk=64, vector=True)


@pytest.mark.parametrize("vector", [True, False])
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_stages_change_nothing(accelerator, stages, vector):
    expect_copied(accelerator, [4096, 8208, 16], vector=vector, stages=stages)


@pytest.mark.parametrize("num_programs", [1, 2, 7, 8, 9, 40])
def test_any_number_of_programs(accelerator, num_programs):
    expect_copied(accelerator, [56, 64] * 2, num_programs=num_programs, bytes_per_chunk=32)


def test_bits_stay_as_they_are(accelerator):
    """The kernel copies bits that a floating point unit would change: signalling NaNs, NaNs with a
    payload, subnormals, and -0.0."""
    patterns = [0x7FF0000000000001, 0xFFF8DEADBEEF0000, 0x7F8000017F800001, 1, 1 << 63]
    words = torch.from_numpy(np.array(patterns, dtype=np.uint64).view(np.int64))
    swap = memory.swap(accelerator, [8 * len(words)])
    offset = int(swap.src_addrs[0]) - swap.source.data_ptr()
    swap.source[offset : offset + words.nbytes] = words.view(torch.uint8)
    target = int(swap.dst_addrs[0]) - swap.target.data_ptr()
    swap.expected[target : target + words.nbytes] = words.view(torch.uint8)
    _held = run(swap)
    swap.expect_copied()


@pytest.mark.gpu
@pytest.mark.gpu_memory(17)
def test_words_beyond_the_range_of_32_bits(accelerator):
    """The kernel copies a piece of more than 16 GiB, whose last words are beyond 2^31. All bytes
    move down by a multiple of 64 chunks, so the same program has read each byte before it is
    overwritten."""
    nbytes, moved = (16 << 30) + 24, 64 << 20
    memory = torch.zeros(nbytes + 64 + moved, dtype=torch.uint8, device=accelerator.device)
    source, target = memory[moved:], memory
    source[nbytes - 8 : nbytes + 8] = 7
    columns = [
        torch.tensor([number]).to(accelerator.device)
        for number in (source.data_ptr(), target.data_ptr(), nbytes)
    ]
    chunks = -(-nbytes // 8192)
    launch(_swap_blocks_kernel, (64,), *columns, 1, 1, chunks, WORDS=1024, VECTOR=False, STAGES=3)
    accelerator.synchronize()
    assert target[nbytes - 16 : nbytes + 8].tolist() == [0] * 8 + [7] * 8 + [0] * 8
    assert not target[: 1 << 20].any()
