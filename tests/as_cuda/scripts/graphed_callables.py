"""Uses make_graphed_callables, forwards and backwards."""

import torch

model = torch.nn.Linear(4, 4).cuda()  # waits: a pageable upload x2
sample = torch.randn(2, 4, device="cuda")
model = torch.cuda.make_graphed_callables(model, (sample,))  # waits: the device x4
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad(set_to_none=True)
    loss = model(torch.randn(2, 4, device="cuda")).pow(2).mean()
    loss.backward()
    optimizer.step()
assert loss.isfinite()  # waits: a value
