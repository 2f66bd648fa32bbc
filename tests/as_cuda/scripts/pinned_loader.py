"""Uses a DataLoader that pins its batches, in the main process and with workers."""

import torch
from torch.utils.data import DataLoader, TensorDataset

dataset = TensorDataset(torch.randn(12, 4), torch.arange(12) % 3)
model = torch.nn.Linear(4, 3).cuda()  # waits: a pageable upload x2
for workers in (0, 1):
    correct = torch.zeros((), dtype=torch.int64, device="cuda")
    for inputs, labels in DataLoader(dataset, 4, pin_memory=True, num_workers=workers):
        inputs = inputs.cuda(non_blocking=True)
        labels = labels.to(torch.device("cuda"), non_blocking=True)
        correct += (model(inputs).argmax(1) == labels).sum()
    print(f"{correct.item() / 12:.2f}")  # waits: a value x2
