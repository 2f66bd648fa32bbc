"""Programs in which the host computes in a step: each has one line that does, and says how.

Each is a function of a device. The comment at the line names the kind (`compile`, `alloc`,
`pinned`, `host`), and for a compilation a part of the key that missed."""

import math
import time

import numpy as np
import torch

from tests.detector.host_bound.kernels import doubled, scaled, shifted

STEPS = 12


def buffers(device, n, dtype=torch.float32):
    return torch.ones(n, device=device, dtype=dtype), torch.empty(n, device=device, dtype=dtype)


def an_integer_becomes_one(device):
    x, out = buffers(device, 64)
    for step in range(STEPS):
        n = 1 if step == 9 else 32
        scaled[(1,)](x, out, n, 2.0, BLOCK=64)  # compile: n


def a_length_is_no_multiple_of_sixteen(device):
    x, out = buffers(device, 64)
    for length in [48, 48, 32, 64, 16, 48, 47, 46]:
        scaled[(1,)](x, out, length, 2.0, BLOCK=64)  # compile: n


def a_batch_in_another_dtype(device):
    x, out = buffers(device, 64)
    half, half_out = buffers(device, 64, torch.float16)
    for step in range(STEPS):
        given, filled = (half, half_out) if step == 5 else (x, out)
        scaled[(1,)](given, filled, 64, 2.0, BLOCK=64)  # compile: x


def a_constant_made_of_the_size(device):
    x, out = buffers(device, 512)
    for step in range(STEPS):
        block = 2 ** (4 + step % 6)
        scaled[(-(-512 // block),)](x, out, 512, 2.0, BLOCK=block)  # compile: BLOCK


def a_view_at_an_odd_address(device):
    x, out = buffers(device, 128)
    for step in range(STEPS):
        row = x[1:65] if step == 7 else x[:64]
        scaled[(1,)](row, out, 64, 2.0, BLOCK=64)  # compile: x


def a_bias_that_only_some_requests_have(device):
    x, out = buffers(device, 64)
    bias = torch.ones(64, device=device)
    for step in range(STEPS):
        shifted[(1,)](x, out, 64, bias if step > 6 else None, BLOCK=64)  # compile: bias


def an_offset_beyond_32_bits(device):
    x, out = buffers(device, 64)
    for step in range(STEPS):
        n = 2**31 + 16 if step == 8 else 64
        scaled[(1,)](x, out, n, 2.0, BLOCK=64)  # compile: n


def a_scale_that_is_sometimes_an_integer(device):
    x, out = buffers(device, 64)
    for step in range(STEPS):
        scale = 3 if step == 4 else 2.5
        scaled[(1,)](x, out, 64, scale, BLOCK=64)  # compile: scale


def warps_chosen_by_the_length(device):
    x, out = buffers(device, 64)
    for step in range(STEPS):
        doubled[(1,)](x, out, 64, BLOCK=64, num_warps=4 if step < 6 else 8)  # compile: num_warps


def a_compiled_function_meets_each_size(device):
    square = torch.compile(lambda x: (x * x).sum(), dynamic=False)
    inputs = [torch.ones(8 + step, device=device) for step in range(STEPS)]
    for x in inputs:
        square(x)  # compile: x


def a_compiled_function_meets_a_dtype(device):
    @torch.compile
    def square(x):
        return (x * x).sum()

    inputs = [torch.ones(8, device=device) for _ in range(STEPS)]
    inputs[6] = inputs[6].double()
    for x in inputs:
        square(x)  # compile: x


def a_cache_grows_by_concatenation(device):
    cache = torch.ones(1, 1 << 18, device=device)
    row = torch.ones(1, 1 << 18, device=device)
    for _ in range(STEPS):
        cache = torch.cat([cache, row])  # alloc


def every_output_is_kept(device):
    x = torch.ones(1 << 18, device=device)
    kept = []
    for _ in range(STEPS):
        kept.append(x * 2)  # alloc


def the_cache_is_emptied(device):
    x = torch.ones(1 << 22, device=device)
    for _ in range(STEPS):
        y = x + 1  # alloc
        del y
        torch.cuda.empty_cache()


def staging_of_a_new_size(device):
    for step in range(1, STEPS):
        staged = torch.empty(2**step * 64, pin_memory=True)  # pinned
        staged.to(device, non_blocking=True)
        torch.cuda.synchronize()


def pinned_batches_are_kept(device):
    kept = []
    for step in range(STEPS):
        batch = torch.full((4096,), float(step))
        kept.append(batch.pin_memory())  # pinned
        kept[-1].to(device, non_blocking=True)


def metadata_is_built_by_a_python_loop(device):
    x = torch.ones(64, device=device)
    for _ in range(STEPS):
        total = 0
        for request in range(60_000):  # host
            total += request % 7  # host
        x.add_(total)


def a_table_is_sorted_on_the_host(device):
    x = torch.ones(64, device=device)
    keys = np.random.default_rng(0).random(200_000)
    for _ in range(STEPS):
        order = np.argsort(keys)  # host
        x.mul_(float(order[0] >= 0))


def the_step_waits_for_a_file(device):
    x = torch.ones(64, device=device)
    for _ in range(STEPS):
        time.sleep(0.005)  # host
        x.add_(1)


def the_weights_are_updated_one_by_one(device):
    weights = [torch.ones(16, device=device) for _ in range(100)]
    for step in range(1, STEPS):
        rate = 1 / math.sqrt(step)
        for weight in weights:
            weight.mul_(1 - rate)  # host
