"""A platform without pinned memory gets the same answers, and is only slower."""

import numpy as np
import pytest
import torch

import debubble
from debubble.exercises import no_pinned_memory
from solutions.common.h2d import async_tensor_h2d
from solutions.common.packed_upload import upload_packed
from solutions.engine import Optimizations
from solutions.models.checkpoints.folder import Stored
from solutions.models.checkpoints.to_device import TensorStream
from solutions.offload import (
    DescriptorPool,
    KVGroup,
    KVTensors,
    SingleDirectionOffloadingHandler,
    pinned_blocks,
    registered,
)
from solutions.pinned_h2d import ModelRunner, compute_mm_prefix_range_tensor

from .setting import ALL, Setting, add, serve, small, tokens_of

BEFORE_AND_AFTER = pytest.mark.parametrize(
    "optimizations", [Optimizations(), Optimizations.none()], ids=["all", "none"]
)


@pytest.fixture(scope="module")
def setting(accelerator):
    """Returns a Setting whose model has a layer of each kind, so that a step uses pinned_h2d,
    sync_free, gdn and flex_graph."""
    return Setting.of(small("gdn", "flex", "spans"), accelerator)


@BEFORE_AND_AFTER
def test_an_engine_answers_as_the_reference_does(accelerator, setting, optimizations):
    all_asked = [
        setting.asked(14, 1, [(2, 9)], max_tokens=3, bad_words=[[1], [2, 3]]),
        setting.asked(34, 2, max_tokens=2, logprobs=[1, 2]),
        setting.asked(3, 3, max_tokens=4),
    ]
    with no_pinned_memory(accelerator):
        outputs = serve(setting.engine(optimizations), all_asked)
    assert tokens_of(outputs) == setting.answers(all_asked)


def test_image_ranges_of_every_step_arrive(accelerator):
    with no_pinned_memory(accelerator):
        ranges = ModelRunner(3, 2, accelerator.device, for_graphs=True).prefix_ranges
        for end in (3, 5, 4):
            tensor = ranges.update({1: [(1, end)]}, 2)
            assert tensor.tolist() == [[[0, 0], [0, 0]], [[1, end], [0, 0]]]
        assert not ranges.update(None, 2).any()


def test_new_pinned_blocks_are_refused_with_a_sentence(accelerator):
    refused = pytest.raises(RuntimeError, match="host memory can't be pinned here")
    with no_pinned_memory(accelerator), refused:
        pinned_blocks(4, 64)


@pytest.mark.parametrize("gpu_to_cpu", [False, True], ids=["load", "store"])
def test_blocks_in_memory_that_was_locked_by_somebody_else_move_right(accelerator, gpu_to_cpu):
    gpu = torch.arange(4 * 64).view(4, 64).to(torch.int8).to(accelerator.device)
    host = torch.arange(100, 100 + 4 * 64).view(4, 64).to(torch.int8)
    there, here = (gpu.cpu(), host.clone()) if gpu_to_cpu else (host.clone(), gpu.cpu())
    with registered(host), no_pinned_memory(accelerator):
        handler = SingleDirectionOffloadingHandler(
            [KVGroup([KVTensors(gpu, host)])], gpu_to_cpu=gpu_to_cpu, pool=DescriptorPool()
        )
        handler.transfer_async("a", [[1, 3]], [[1, 3]])
        accelerator.synchronize()
        assert [result.error for result in handler.get_finished()] == [None]
        here[[1, 3]] = there[[1, 3]]
        assert torch.equal((host if gpu_to_cpu else gpu).cpu(), here)
        del handler


def test_memory_is_pinned_wherever_it_can_be(accelerator, hybrid):
    """No upload and no download of an engine falls back to pageable memory where pinned memory is
    to be had: a renamed attribute did that silently (vllm-omni #4860)."""
    engine = hybrid.engine(ALL)
    asked = hybrid.asked(40, max_tokens=3, logprobs=[1, 2], bad_words=[[1], [2, 3]])
    serve(engine, [asked])
    engine.reset_prefix_cache()
    with debubble.record(accelerator) as timeline:
        add(engine, hybrid.asked(20, 1, [(2, 9)], presence_penalty=0.5, max_tokens=3))
        add(engine, asked)
        engine.run()
    assert from_pageable_memory(timeline) == []
    assert timeline.counts()["h2d_pinned"] and timeline.counts()["d2h"]
    assert DescriptorPool().take(1).is_pinned(), "a kernel reads its descriptors over the link"


UPLOADS = {
    "numbers": lambda device, _: async_tensor_h2d([1, 2], device),
    "arrays": lambda device, _: upload_packed({"a": np.arange(3)}, device),
    "ranges": lambda device, _: compute_mm_prefix_range_tensor({0: [(1, 3)]}, 1, device),
    "weights": lambda device, file: TensorStream(device, chunk=64).read(
        Stored("a", file, "F32", (2,), begin=0, end=8)
    ),
}


@pytest.mark.parametrize("name", UPLOADS)
def test_an_upload_outside_of_an_engine_is_pinned_too(accelerator, tmp_path, name):
    """Pinning is not silently off in what an engine's steps don't call (vllm-omni #4860)."""
    file = tmp_path / "weights"
    file.write_bytes(bytes(8))
    with debubble.record(accelerator) as timeline:
        UPLOADS[name](accelerator.device, file)
    assert from_pageable_memory(timeline) == []
    assert timeline.counts()["h2d_pinned"] == 1


def from_pageable_memory(timeline):
    """Returns the lines of all copies between the device and memory that is not pinned."""
    copies = [event for event in timeline.events if event.copy_kind is not None]
    return [str(e.source) for e in copies if e.pageable or e.copy_kind == "h2d_pageable"]
