"""Tensors that can be a KV cache: rows of bytes on both sides, where a copy can reach them."""

import pytest
import torch

from solutions.offload.memory.kv_tensors import KVGroup, KVTensors, check_memory, may_overlap

PAGE = 64


@pytest.fixture
def make(accelerator):
    """Returns a function that makes the KVTensors of a layer, by default with 4 GPU blocks of one
    page and 2 CPU blocks of `factor` pages."""

    def make(factor=1, *, num_gpu=4, num_cpu=2, page=PAGE, pinned=True, copied_bytes=None):
        gpu = torch.zeros((num_gpu, page), dtype=torch.int8, device=accelerator.device)
        cpu = torch.zeros((num_cpu, page * factor), dtype=torch.int8, pin_memory=pinned)
        return KVTensors(gpu, cpu, copied_bytes)

    return make


def test_a_page_is_a_row_of_the_gpu_tensor(make):
    pair = make(3)
    assert (pair.page, pair.copied_bytes, pair.strides) == (PAGE, PAGE, (PAGE, 3 * PAGE))
    assert make(copied_bytes=40).copied_bytes == 40


def test_rows_may_be_part_of_longer_ones(accelerator):
    gpu = torch.zeros((4, 3 * PAGE), dtype=torch.int8, device=accelerator.device)
    cpu = torch.zeros((2, 5 * PAGE), dtype=torch.int8, pin_memory=True)
    pair = KVTensors(gpu[:, PAGE : 2 * PAGE], cpu[:, :PAGE])
    assert (pair.page, pair.strides) == (PAGE, (3 * PAGE, 5 * PAGE))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda gpu, cpu: (gpu.view(torch.int16), cpu), "gpu is torch.int16"),
        (lambda gpu, cpu: (gpu, cpu.view(torch.uint8)), "cpu is torch.uint8"),
        (lambda gpu, cpu: (gpu.flatten(), cpu), r"gpu is torch.int8 \[256\]"),
        (lambda gpu, cpu: (gpu[:0], cpu), r"gpu has the shape \[0, 64\]: there is nothing"),
        (lambda gpu, cpu: (gpu, cpu[:, ::2]), r"cpu has strides of \[64, 2\]"),
        (lambda gpu, cpu: (gpu[:1].expand(4, PAGE), cpu), r"gpu has strides of \[0, 1\]"),
        (lambda gpu, cpu: (gpu, gpu), "cpu is on .*: it must be in host memory"),
        (lambda gpu, cpu: (cpu, cpu), "gpu is in host memory"),
    ],
)
def test_what_is_no_cache_is_refused(make, change, message):
    pair = make()
    with pytest.raises(ValueError, match=message):
        KVTensors(*change(pair.gpu, pair.cpu))


@pytest.mark.parametrize("copied_bytes", [0, -8, PAGE + 1])
def test_no_more_than_a_page_is_copied(make, copied_bytes):
    with pytest.raises(ValueError, match=f"copied_bytes of {copied_bytes}: .* a page of 64"):
        make(copied_bytes=copied_bytes)


def test_a_cpu_block_holds_as_many_pages_as_the_factor_says(make):
    assert KVGroup([make(3)], 3).num_cpu_blocks == 2
    with pytest.raises(ValueError, match="tensor 1: a CPU block has 128 bytes, and 3 pages of 64"):
        KVGroup([make(3), make(2)], 3)


def test_block_ids_hold_for_a_whole_group(make):
    with pytest.raises(ValueError, match="tensor 1 has 5 GPU and 2 CPU blocks, and tensor 0 4 and"):
        KVGroup([make(), make(num_gpu=5)])
    with pytest.raises(ValueError, match="tensor 1 has 4 GPU and 3 CPU blocks"):
        KVGroup([make(), make(num_cpu=3)])


def test_a_group_has_tensors_and_a_factor(make):
    with pytest.raises(ValueError, match="a group without tensors"):
        KVGroup([])
    with pytest.raises(ValueError, match="a block size factor of 0"):
        KVGroup([make()], 0)


def test_tensors_that_differ_only_in_their_place_share_a_layout(make):
    pairs = [make(), make(page=128), make(), make(copied_bytes=40)]
    layouts = KVGroup(pairs).layouts
    assert [(layout.page, layout.copied_bytes) for layout in layouts] == [
        (64, 64),
        (128, 128),
        (64, 40),
    ]
    first = layouts[0]
    assert first.gpu_bases.tolist() == [pairs[0].gpu.data_ptr(), pairs[2].gpu.data_ptr()]
    assert first.cpu_bases.tolist() == [pairs[0].cpu.data_ptr(), pairs[2].cpu.data_ptr()]


def test_a_kernel_can_copy_multiples_of_a_word_only(make):
    assert make(3).is_aligned
    assert not make(page=60).is_aligned
    assert not make(copied_bytes=36).is_aligned
    pair = make()
    assert not KVTensors(pair.gpu[:, 4:60], pair.cpu[:, 8:]).is_aligned, "its base is in a word"


def test_pinned_and_registered_memory_is_reached(accelerator, make):
    check_memory(accelerator, [KVGroup([make(), make()])])
    pair = make(pinned=False)
    accelerator.register_host_memory(pair.cpu.data_ptr(), pair.cpu.nbytes)
    try:
        check_memory(accelerator, [KVGroup([pair])])
    finally:
        accelerator.unregister_host_memory(pair.cpu.data_ptr())


def test_memory_that_was_registered_in_parts_is_reached(accelerator):
    pages = torch.zeros(4 * 4096, dtype=torch.int8)
    start = -pages.data_ptr() % 4096
    cpu = pages[start : start + 2 * 4096].view(2, 4096)
    gpu = torch.zeros((4, 4096), dtype=torch.int8, device=accelerator.device)
    groups = [KVGroup([KVTensors(gpu, cpu)])]
    addresses = [cpu.data_ptr(), cpu.data_ptr() + 4096]
    accelerator.register_host_memory(addresses[0], 4096)
    with pytest.raises(ValueError, match="pageable"):
        check_memory(accelerator, groups)
    accelerator.register_host_memory(addresses[1], 4096)
    check_memory(accelerator, groups)
    for address in addresses:
        accelerator.unregister_host_memory(address)


def test_pageable_memory_is_refused_by_its_place(accelerator, make):
    groups = [KVGroup([make()]), KVGroup([make(), make(pinned=False)])]
    with pytest.raises(ValueError, match="group 1, tensor 1: cpu is pageable host memory"):
        check_memory(accelerator, groups)


def test_another_device_is_refused(accelerator, make):
    elsewhere = torch.zeros((4, PAGE), dtype=torch.int8, device="meta")
    groups = [KVGroup([KVTensors(elsewhere, make().cpu)])]
    with pytest.raises(ValueError, match="group 0, tensor 0: gpu is not in the memory of this"):
        check_memory(accelerator, groups)


def test_groups_may_share_memory(make):
    pair, other = make(), make()
    assert not may_overlap([KVGroup([pair]), KVGroup([other])], "gpu")
    shared = [KVGroup([pair]), KVGroup([KVTensors(pair.gpu, other.cpu)])]
    assert may_overlap(shared, "gpu")
    assert not may_overlap(shared, "cpu")
