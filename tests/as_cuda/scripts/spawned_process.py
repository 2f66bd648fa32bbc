"""Hands a model and tensors of the device to a process that is started afresh."""

import torch
import torch.multiprocessing as mp


def work(rank, model, data, answers):
    answers.put(model(data.cuda()).sum().item())


if __name__ == "__main__":
    model = torch.nn.Linear(3, 1, device="cuda")
    data = torch.ones(3, device="cuda")
    answers = mp.get_context("spawn").SimpleQueue()
    mp.spawn(work, args=(model, data, answers), nprocs=1)
    assert answers.get() == model(data).sum().item()  # waits: a value
