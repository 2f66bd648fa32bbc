"""The upload function async_tensor_h2d."""

import numpy as np
import pytest
import torch

import debubble
from solutions.common.h2d import async_tensor_h2d


@pytest.mark.parametrize(
    "data",
    [[3, 1, 2], np.array([3, 1, 2]), torch.tensor([3, 1, 2])],
    ids=["list", "array", "tensor"],
)
def test_lists_arrays_and_tensors_arrive(accelerator, data):
    sent = async_tensor_h2d(data, accelerator.device, torch.int32)
    assert sent.device.type == accelerator.device.type
    assert sent.dtype == torch.int32
    assert sent.tolist() == [3, 1, 2]


def test_the_dtype_is_that_of_the_data_or_of_out(accelerator):
    assert async_tensor_h2d([1, 2], accelerator.device).dtype == torch.int64
    out = torch.zeros(2, dtype=torch.int32, device=accelerator.device)
    assert async_tensor_h2d([1, 2], accelerator.device, out=out) is out
    assert out.tolist() == [1, 2]


def test_one_pinned_upload_and_no_wait(accelerator):
    out = torch.zeros(2, dtype=torch.int32, device=accelerator.device)
    for target in (None, out):
        async_tensor_h2d([1, 2], accelerator.device, torch.int32, out=target)
    accelerator.synchronize()
    for target in (None, out):
        with debubble.record(accelerator) as timeline, debubble.no_host_syncs():
            async_tensor_h2d([1, 2], accelerator.device, torch.int32, out=target)
        assert timeline.counts()["h2d_pinned"] == 1


def test_the_data_may_be_changed_at_once(accelerator):
    pinned = torch.tensor([1, 2, 3], pin_memory=accelerator.pin_memory)
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(2.0)
        sent = async_tensor_h2d(pinned, accelerator.device)
        pinned.zero_()
    assert sent.tolist() == [1, 2, 3]
    assert not timeline.hazards


def test_a_number_that_does_not_fit_is_refused(accelerator):
    with pytest.raises(ValueError, match=r"2147483648 does not fit into torch.int32"):
        async_tensor_h2d([2**31], accelerator.device, torch.int32)


@pytest.mark.parametrize(
    ("data", "dtype", "named"),
    [
        ([1.0, 2.0**40], torch.int32, "1099511627776.0"),
        ([float("nan")], torch.int32, "nan"),
        ([3.5], torch.int64, "3.5"),
        ([-1], torch.uint8, "-1"),
        ([0, 2], torch.bool, "2"),
        ([70000.0], torch.float16, "70000.0"),
        ([70000], torch.float16, "70000"),
        (np.array([1e39]), torch.float32, "1e.39"),
    ],
    ids=["large", "nan", "fraction", "below 0", "truth", "half", "integer to half", "float"],
)
def test_numbers_that_would_become_others_are_refused(accelerator, data, dtype, named):
    with pytest.raises(ValueError, match=f"^{named} does not fit into {dtype}"):
        async_tensor_h2d(data, accelerator.device, dtype)


@pytest.mark.parametrize(
    ("data", "dtype", "expected"),
    [
        ([], torch.int32, []),
        (2.0, torch.int32, 2),
        ([0, 1], torch.bool, [False, True]),
        ([True], torch.int32, [1]),
        ([float("inf"), 0.5], torch.float16, [float("inf"), 0.5]),
        ([2**40 + 1], torch.float32, [2.0**40]),
    ],
    ids=["none", "one", "truths", "truth", "infinity", "rounded"],
)
def test_other_numbers_are_converted(accelerator, data, dtype, expected):
    assert async_tensor_h2d(data, accelerator.device, dtype).tolist() == expected


def test_an_out_of_another_shape_is_refused(accelerator):
    out = torch.zeros(3, device=accelerator.device)
    with pytest.raises(ValueError, match=r"out is torch.float32 \[3\].*torch.float32 \[2\]"):
        async_tensor_h2d([1.0, 2.0], accelerator.device, torch.float32, out=out)


def test_data_on_the_device_is_refused(accelerator):
    with pytest.raises(ValueError, match=r"on .* already"):
        async_tensor_h2d(torch.zeros(2, device=accelerator.device), accelerator.device)
