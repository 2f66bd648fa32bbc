"""Adds on the device, but an `if` on a tensor asks the device for its answer each time.

fails: test_it_reads_the_device_once
says: 17 host syncs
says: if torch.isnan(loss):
"""

import torch


def mean_loss(losses):
    total = torch.zeros_like(losses[0])
    for loss in losses:
        if torch.isnan(loss):
            continue
        total += loss
    return (total / len(losses)).item()
