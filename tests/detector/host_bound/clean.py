"""Programs that resemble the planted ones, and in which nothing of that kind happens in a step.

Each is a function of a device. Set-up, and the first pass of the loop, may do as they like."""

import numpy as np
import torch

import debubble
from tests.detector.host_bound.kernels import doubled, scaled, shifted

STEPS = 12


def buffers(device, n, dtype=torch.float32):
    return torch.ones(n, device=device, dtype=dtype), torch.empty(n, device=device, dtype=dtype)


def all_lengths_are_multiples(device):
    x, out = buffers(device, 256)
    for step in range(STEPS):
        scaled[(1,)](x, out, 16 * (1 + step), 2.0, BLOCK=64)


def both_keys_are_warmed_up(device):
    x, out = buffers(device, 64)
    for length in (16, 17, 1):
        scaled[(1,)](x, out, length, 2.0, BLOCK=64)
    for length in [48, 47, 1, 33, 64, 1, 16]:
        scaled[(1,)](x, out, length, 2.0, BLOCK=64)


def the_argument_is_not_specialised(device):
    x, out = buffers(device, 64)
    for length in [1, 2, 16, 17, 64, 1, 31]:
        doubled[(1,)](x, out, length, BLOCK=64)


def values_of_a_float_differ(device):
    x, out = buffers(device, 64)
    for step in range(STEPS):
        scaled[(1,)](x, out, 64, 1.0 + step, BLOCK=64)


def views_at_aligned_addresses(device):
    x, out = buffers(device, 256)
    for step in range(8):
        scaled[(1,)](x[16 * step : 16 * step + 64], out, 64, 2.0, BLOCK=64)


def both_dtypes_are_warmed_up(device):
    x, out = buffers(device, 64)
    half, half_out = buffers(device, 64, torch.float16)
    scaled[(1,)](half, half_out, 64, 2.0, BLOCK=64)
    for step in range(STEPS):
        given, filled = (half, half_out) if step % 3 == 2 else (x, out)
        scaled[(1,)](given, filled, 64, 2.0, BLOCK=64)


def bias_always_there(device):
    x, out = buffers(device, 64)
    bias = torch.zeros(64, device=device)
    for _ in range(STEPS):
        shifted[(1,)](x, out, 64, bias, BLOCK=64)


def shapes_differ_but_no_key(device):
    given = [torch.ones(4, 16, device=device), torch.ones(64, device=device)]
    out = torch.empty(64, device=device)
    for step in range(STEPS):
        scaled[(1,)](given[step % 2], out, 64, 2.0, BLOCK=64)


def a_compiled_function_of_one_shape(device):
    square = torch.compile(lambda x: (x * x).sum())
    inputs = [torch.ones(8, device=device) for _ in range(STEPS)]
    for x in inputs:
        square(x)


def a_compiled_function_of_dynamic_shape(device):
    square = torch.compile(lambda x: (x * x).sum(), dynamic=True)
    inputs = [torch.ones(8 + step, device=device) for step in range(STEPS)]
    for x in inputs:
        square(x)


def two_shapes_warmed_up(device):
    square = torch.compile(lambda x: (x * x).sum(), dynamic=False)
    inputs = [torch.ones(8 + step % 2, device=device) for step in range(STEPS)]
    square(inputs[1])
    for x in inputs:
        square(x)


def temporaries_return_to_the_cache(device):
    x = torch.ones(1 << 20, device=device)
    y = x + 1
    for _ in range(STEPS):
        y = x + 1
        y = y * 2
    return y


def smaller_requests_fit_the_cache(device):
    largest = torch.empty(1 << 22, device=device)
    del largest
    for step in range(STEPS):
        torch.empty((1 << 22) - (step << 12), device=device).fill_(1)


def a_preallocated_cache_is_filled(device):
    cache = torch.empty(STEPS, 1 << 20, device=device)
    row = torch.ones(1 << 20, device=device)
    for step in range(STEPS):
        cache[step].copy_(row)


def one_staging_buffer(device):
    staged = torch.empty(4096, pin_memory=True)
    target = torch.empty(4096, device=device)
    for step in range(STEPS):
        staged.fill_(step)
        target.copy_(staged, non_blocking=True)
        torch.cuda.synchronize()


def pinned_memory_is_reused(device):
    for step in range(STEPS):
        batch = torch.full((4096 - step,), 1.0).pin_memory()
        batch.to(device, non_blocking=True)
        torch.cuda.synchronize()


def python_behind_a_busy_device(device):
    x = torch.ones(64, device=device)
    accelerator = debubble.accelerator("sim")
    for _ in range(STEPS):
        x.add_(1)
        accelerator.sleep(20)
        sum(request % 7 for request in range(2_000))


def the_host_sorts_before_the_steps(device):
    keys = np.random.default_rng(0).random(200_000)
    x = torch.ones(1 << 24, device=device)
    np.argsort(keys)
    for _ in range(STEPS):
        x.mul_(0.5)
        x.add_(1)


def large_kernels_one_by_one(device):
    weights = [torch.ones(1 << 24, device=device) for _ in range(4)]
    for _ in range(STEPS):
        for weight in weights:
            weight.mul_(0.5)


def one_fused_update(device):
    weights = [torch.ones(1 << 22, device=device) for _ in range(12)]
    for _ in range(STEPS):
        torch._foreach_mul_(weights, 0.5)
