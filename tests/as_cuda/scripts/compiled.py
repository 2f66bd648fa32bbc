"""Uses torch.compile, as a call and as a decorator."""

import torch

torch.set_float32_matmul_precision("high")
layer = torch.nn.Linear(4, 4).to("cuda")  # waits: a pageable upload x2
model = torch.compile(layer, mode="reduce-overhead")


# compiles
@torch.compile(fullgraph=True)
def normed(x):
    return x / x.norm()


# compiles
out = normed(model(torch.ones(2, 4, device="cuda")))

print(out.sum().item())  # waits: a value
