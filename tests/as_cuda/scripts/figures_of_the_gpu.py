"""Prints figures of the GPU and its memory."""

import torch

properties = torch.cuda.get_device_properties("cuda")
print(torch.cuda.get_device_name(0), properties.multi_processor_count, torch.version.cuda)
assert torch.cuda.get_device_capability() >= (8, 0)
torch.cuda.reset_peak_memory_stats()
before = torch.cuda.memory_allocated()
x = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
assert torch.cuda.memory_allocated() == before + (1 << 20)
del x
torch.cuda.empty_cache()
assert torch.cuda.memory_allocated() == before
assert torch.cuda.max_memory_allocated() == before + (1 << 20)
free, total = torch.cuda.mem_get_info()
assert free < total == properties.total_memory
with torch.cuda.nvtx.range("a step"):
    torch.cuda.nvtx.range_push("inner")
    y = torch.ones(4, device="cuda")
    torch.cuda.nvtx.range_pop()
print(f"{y.sum():.1f}")  # waits: a value
