"""The inputs of the programs: seeded on the CPU, so that every device sees the same values."""

import torch
from torch import nn


def cpu_rand(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def cpu_ints(high, shape, seed=0):
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(seed))


def pinned(accelerator, tensor):
    return tensor.pin_memory() if accelerator.pin_memory else tensor


def little_model(device):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3)).to(device)
