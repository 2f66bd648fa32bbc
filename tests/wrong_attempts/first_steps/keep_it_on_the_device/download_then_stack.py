"""Stacks the losses and reads the mean once, but only after each loss has been downloaded.

fails: test_it_reads_the_device_once
says: 16 downloads
says: .cpu()
"""

import torch


def mean_loss(losses):
    return torch.stack([loss.cpu() for loss in losses]).mean().item()
