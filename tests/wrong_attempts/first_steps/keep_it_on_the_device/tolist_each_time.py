"""Replaces .item() by .tolist(), which reads the device just as often.

fails: test_it_reads_the_device_once
says: 16 host syncs and 16 downloads
says: return sum(loss.tolist() for loss in losses)
"""


def mean_loss(losses):
    return sum(loss.tolist() for loss in losses) / len(losses)
