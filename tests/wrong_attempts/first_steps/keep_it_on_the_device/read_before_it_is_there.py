"""Downloads without waiting, and then does not wait: the numbers are not there yet.

fails: test_it_returns_the_mean
fails: test_one_loss_is_its_own_mean
fails: test_it_reads_the_device_once
says: 16 downloads
on: sim
"""


def mean_loss(losses):
    on_host = [loss.to("cpu", non_blocking=True) for loss in losses]
    return sum(float(loss) for loss in on_host) / len(on_host)
