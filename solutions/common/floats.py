"""The types that layers compute in."""

import torch

FLOATS = (torch.bfloat16, torch.float16, torch.float32)
