"""Begins with a zero that it uploads, which waits.

fails: test_it_reads_the_device_once
says: An upload from pageable memory is a wait, too
says: without an upload
"""

from debubble.accelerator import current


def mean_loss(losses):
    total = torch.tensor(0.0, device=current().device)
    for loss in losses:
        total = total + loss
    return (total / len(losses)).item()
