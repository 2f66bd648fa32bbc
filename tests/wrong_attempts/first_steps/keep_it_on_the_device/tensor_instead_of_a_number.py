"""Avoids the sync by not reading at all: the caller wanted a number.

fails: test_it_returns_the_mean
fails: test_one_loss_is_its_own_mean
says: a tensor and no float
"""

import torch


def mean_loss(losses):
    return torch.stack(losses).mean()
