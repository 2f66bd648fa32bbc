"""Runs a training loop as in most tutorials."""

import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
model = model.to(device)  # waits: a pageable upload x4
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss().to(device)
running = 0.0
for _ in range(3):
    inputs, labels = torch.randn(4, 8), torch.randint(0, 2, (4,))
    inputs = inputs.to(device)  # waits: a pageable upload x3
    labels = labels.cuda()  # waits: a pageable upload x3
    optimizer.zero_grad()
    loss = criterion(model(inputs), labels)
    loss.backward()
    optimizer.step()
    running += loss.item()  # waits: a value x3
assert running > 0 and next(model.parameters()).is_cuda
