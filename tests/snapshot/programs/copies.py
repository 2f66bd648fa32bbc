"""Programs with uploads, downloads, and tensors made of numbers."""

import numpy as np
import torch

from .inputs import cpu_ints, cpu_rand, pinned


def uploads_pageable_and_pinned(accelerator, device):
    pageable, page_locked = cpu_rand(64, 64), pinned(accelerator, cpu_rand(64, 64))

    def run():
        a = pageable.to(device)
        b = pageable.to(device, non_blocking=True)
        c = page_locked.to(device)
        d = page_locked.to(device, non_blocking=True)
        e = page_locked.to(device, torch.bfloat16, non_blocking=True)
        f = page_locked[:, :8].to(device, non_blocking=True)
        accelerator.synchronize()
        return a, b, c, d, e, f

    return run


def large_pageable_upload_non_blocking(accelerator, device):
    big, target = cpu_rand(512, 512), torch.empty(512, 512, device=device)

    def run():
        target.copy_(big, non_blocking=True)
        target.copy_(big.t(), non_blocking=True)
        target[:, :256].copy_(big[:, :256])
        return target

    return run


def downloads_with_event(accelerator, device):
    x, host = cpu_rand(32, 32).to(device), pinned(accelerator, torch.empty(32, 32))
    plain = torch.empty(32, 32)

    def run():
        y = x * 2
        host.copy_(y, non_blocking=True)
        done = accelerator.event()
        done.record()
        z = y + 1
        done.synchronize()
        plain.copy_(z)
        plain.copy_(z, non_blocking=True)
        accelerator.synchronize()
        return float(host.sum()), z.to("cpu", non_blocking=False).shape

    return run


def side_stream_copies(accelerator, device):
    side, host = accelerator.stream(), pinned(accelerator, cpu_rand(256, 256))
    x = cpu_rand(256, 256).to(device)

    def run():
        main = accelerator.current_stream()
        side.wait_stream(main)
        with side:
            y = host.to(device, non_blocking=True)
            ready = side.record_event()
        z = x @ x
        main.wait_event(ready)
        out = z + y
        ready.query()
        side.synchronize()
        return out

    return run


def dataloader_uploads(accelerator, device):
    data = torch.utils.data.TensorDataset(cpu_rand(12, 8), cpu_ints(3, (12,)))
    loader = torch.utils.data.DataLoader(data, batch_size=4)
    weight = cpu_rand(8, 3).to(device)

    def run():
        right = 0
        for x, y in loader:
            x, y = x.to(device, non_blocking=True), y.to(device)
            right += ((x @ weight).argmax(1) == y).sum().item()
        return right

    return run


def dataloader_pinned_by_hand(accelerator, device):
    batches = [pinned(accelerator, cpu_rand(4, 8, seed=i)) for i in range(3)]
    weight = cpu_rand(8, 3).to(device)

    def run():
        total = torch.zeros((), device=device)
        for x in batches:
            total += (x.to(device, non_blocking=True) @ weight).sum()
        return total.item()

    return run


def make_from_python_lists(accelerator, device):
    def run():
        a = torch.tensor([[1, 2], [3, 4]], device=device)
        b = torch.as_tensor(np.arange(4.0), device=device)
        c = torch.full((2, 2), 7, device=device)
        d = torch.tensor([1.0, 2.0]).to(device, dtype=torch.float16)
        e = torch.from_numpy(np.ones(3, np.int32)).to(device)
        f = torch.tensor(5, device=device)
        return a.sum() + f, b, c, d, e

    return run


def make_on_the_device(accelerator, device):
    def run():
        a = torch.arange(10, device=device)
        b = torch.linspace(0, 1, 5, device=device)
        c = torch.eye(3, device=device)
        d = torch.zeros(2, 3, device=device).new_ones(4)
        e = torch.empty(3, device=device).zero_()
        f = torch.ones_like(b, dtype=torch.int64)
        g = torch.tril(torch.ones(4, 4, device=device)).bool()
        h = torch.stack([b, b]).repeat(2, 1).expand(4, 5).contiguous()
        return a, c, d, e, f, g, h

    return run
