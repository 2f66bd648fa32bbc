"""A training loop as it is often written. It says "cuda", and waits in four places."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
with torch.device(device):
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = TensorDataset(torch.randn(64, 64), torch.arange(64) % 10)

for inputs, labels in DataLoader(data, batch_size=8):
    inputs = inputs.to(device)
    labels = labels.to(device, non_blocking=True)
    weights = torch.tensor([1.0] * 9 + [2.0], device=device)
    loss = nn.functional.cross_entropy(model(inputs), labels, weight=weights)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"loss {loss.item():.3f}")
