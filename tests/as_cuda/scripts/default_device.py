"""Sets the device once: as a default, and by a context."""

import torch

torch.set_default_device("cuda")
generator = torch.Generator(device="cuda").manual_seed(1)
noise = torch.randn(3, generator=generator)
table = torch.tensor([1.0, 2.0, 3.0])  # waits: a pageable upload
order = torch.randperm(3, generator=generator)
assert torch.get_default_device() == noise.device == table.device
torch.set_default_device(None)
with torch.device("cuda"):
    model = torch.nn.Linear(3, 1)
assert str(model.weight.device) == "cuda:0"
torch.cuda.manual_seed_all(0)
print(model(table[order] + noise).item())  # waits: a value
