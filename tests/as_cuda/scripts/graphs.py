"""Uses a CUDA graph: warm-up on a side stream, capture, replays."""

import torch

model = torch.nn.Linear(4, 4, device="cuda").eval()
static = torch.zeros(2, 4, device="cuda")
warm_up = torch.cuda.Stream()
warm_up.wait_stream(torch.cuda.current_stream())
with torch.no_grad(), torch.cuda.stream(warm_up):
    model(static)
torch.cuda.current_stream().wait_stream(warm_up)
graph = torch.cuda.CUDAGraph()
with torch.no_grad(), torch.cuda.graph(graph):  # waits: the device
    assert torch.cuda.is_current_stream_capturing()
    out = model(static)
other = torch.cuda.CUDAGraph()
with torch.no_grad(), torch.cuda.graph(other, pool=graph.pool()):  # waits: the device
    again = out * 2
for value in range(3):
    static.fill_(value)
    graph.replay()
    other.replay()
torch.testing.assert_close(again, 2 * model(static), check_device=True)  # waits: a value
