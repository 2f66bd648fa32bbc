"""Saves and loads checkpoints, on the device and on the host."""

import io

import torch

model = torch.nn.Linear(8, 8, device="cuda")
file = io.BytesIO()
torch.save(model.state_dict(), file)  # waits: a download x2
for place in ("cuda", torch.device("cuda:0")):
    file.seek(0)
    model.load_state_dict(torch.load(file, map_location=place))  # waits: a pageable upload x4
file.seek(0)
on_host = torch.load(file, map_location="cpu")
assert on_host["weight"].device.type == "cpu" and not on_host["weight"].is_cuda
assert model.weight.is_cuda
