"""Uses the accelerator that PyTorch finds."""

import torch

if not torch.accelerator.is_available():
    raise SystemExit("no accelerator")
device = torch.accelerator.current_accelerator()
module = torch.get_device_module(device)
assert device.type == "cuda" and module.device_count() == torch.accelerator.device_count() == 1
x = torch.arange(6, device=device).view(2, 3)
stream, event = torch.Stream(device=device), torch.Event(device=device, enable_timing=True)
with stream:
    y = x + 1
    event.record()
torch.accelerator.current_stream().wait_event(event)
x[:, 0] = 7
x[torch.tensor([1])] = 0  # waits: a pageable upload x2
if x.any():  # waits: a value
    y = x + y
torch.accelerator.synchronize()  # waits: the device
