"""Uploads the next batch in a thread while the current one is used."""

import queue
import threading

import torch

batches = queue.Queue(maxsize=2)


def bring(how_many):
    for number in range(how_many):
        host = torch.full((4, 4), float(number)).pin_memory()
        batches.put(host.cuda(non_blocking=True))
        batches.put(torch.ones(4, 4).cuda())  # waits: a pageable upload x2
    batches.put(None)


threading.Thread(target=bring, args=(2,), daemon=True, name="loader").start()
total = torch.zeros((), device="cuda")
while (batch := batches.get()) is not None:
    total += batch.sum()
print(total.item())  # waits: a value
