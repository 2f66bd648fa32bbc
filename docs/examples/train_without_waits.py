"""The same training loop, which never waits in a step."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
with torch.device(device):
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = TensorDataset(torch.randn(64, 64), torch.arange(64) % 10)
weights = torch.tensor([1.0] * 9 + [2.0], pin_memory=True).to(device, non_blocking=True)
total = torch.zeros((), device=device)

for inputs, labels in DataLoader(data, batch_size=8, pin_memory=True):
    inputs = inputs.to(device, non_blocking=True)
    labels = labels.to(device, non_blocking=True)
    loss = nn.functional.cross_entropy(model(inputs), labels, weight=weights)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.detach()
print(f"mean loss {total.item() / 8:.3f}")
