"""Sends the mean to pinned memory, and waits for an event before it is read."""


def mean_loss(losses):
    mean = torch.cat([loss.view(1) for loss in losses]).mean(0)
    kept = torch.empty((), pin_memory=current().pin_memory).copy_(mean, non_blocking=True)
    arrived = current().event()
    arrived.record()
    arrived.synchronize()
    return kept.item()
