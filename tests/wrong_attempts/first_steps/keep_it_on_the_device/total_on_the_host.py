"""Adds each loss to a total on the host, by copies that nothing waits for.

fails: test_it_reads_the_device_once
fails: test_steps_one_after_another
may fail: test_it_returns_the_mean
may fail: test_one_loss_is_its_own_mean
says: Your code made no host syncs and 16 downloads
says: The host waits for none of these copies
on: sim
"""


def mean_loss(losses):
    total = torch.zeros(())
    for loss in losses:
        total.add_(loss.to("cpu", non_blocking=True))
    return (total / len(losses)).item()
