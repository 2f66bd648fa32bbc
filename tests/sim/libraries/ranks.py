"""One of two ranks that train one step together over gloo: `python -m tests.sim.libraries.ranks`.

Its arguments are "ddp" or "fsdp", its rank, and a file by which the ranks find each other. It
prints the parameters after the step, as JSON.
"""

from __future__ import annotations

import json
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import debubble

RANKS = 2


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))


def batch() -> torch.Tensor:
    """Returns the batch that the ranks train on together, [rows, 4] fp32; each rank takes its
    rows."""
    return torch.linspace(-1, 1, 6 * 4).view(6, 4)


def step(trained: torch.nn.Module, rows: torch.Tensor) -> None:
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
    trained(rows).square().mean().backward()
    optimizer.step()


def main() -> None:
    way, rank, meeting = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    device = debubble.accelerator("sim").device
    dist.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=RANKS)
    whole, rows = model().to(device), batch().chunk(RANKS)[rank].to(device)
    if way == "ddp":
        step(torch.nn.parallel.DistributedDataParallel(whole), rows)
        values = [parameter.tolist() for parameter in whole.parameters()]
    else:
        mesh = init_device_mesh("sim", (RANKS,))
        fully_shard(whole, mesh=mesh)
        step(whole, rows)
        values = [parameter.full_tensor().tolist() for parameter in whole.parameters()]
    print(json.dumps(values))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
