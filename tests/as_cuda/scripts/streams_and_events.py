"""Runs work on its own stream, and times it with events."""

import torch

side = torch.cuda.Stream()
begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
x = torch.ones(64, 64, device="cuda")
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    begin.record()
    y = x @ x
    end.record()
    y.record_stream(torch.cuda.current_stream())
torch.cuda.current_stream().wait_stream(side)
assert torch.cuda.current_stream() == torch.cuda.default_stream()
end.synchronize()  # waits: an event
assert begin.elapsed_time(end) > 0
side.synchronize()  # waits: a stream
torch.cuda.synchronize()  # waits: the device
done = torch.cuda.Event()
done.record()
while not done.query():
    pass
assert isinstance(side, torch.cuda.Stream) and isinstance(done, torch.cuda.Event)
