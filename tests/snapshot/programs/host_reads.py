"""Programs whose Python code reads values from the device."""

import io

import numpy as np
import torch

from .inputs import cpu_ints, cpu_rand


def nested_lists_and_tolist(accelerator, device):
    x = cpu_ints(9, (3, 4)).to(device)

    def run():
        rows = [[int(v) for v in row] for row in x[:2]]
        return rows, x.tolist(), [row.tolist() for row in x], x.cpu().numpy().sum().item()

    return run


def python_builtins_over_tensors(accelerator, device):
    x = cpu_ints(50, (5,)).to(device)

    def run():
        largest = max(x)
        smallest = min(x.tolist())
        total = sum(x)
        return int(largest), smallest, int(total), len(x), 7 in x, bool(x.any())

    return run


def bool_tests_and_branches(accelerator, device):
    x = cpu_rand(4, 4).to(device)

    def run():
        said = []
        if (x > 2).any():
            said.append("large")
        if not torch.isfinite(x).all():
            said.append("bad")
        while x.sum() < 0:
            break
        said.append("a" if x[0, 0] > x[1, 1] else "b")
        return said, torch.allclose(x, x), torch.equal(x, x.clone()), x.isnan().any().item()

    return run


def assertions_on_tensors(accelerator, device):
    x, ids = cpu_rand(6).to(device), cpu_ints(6, (6,)).to(device)

    def run():
        assert x.shape == (6,)
        assert (x >= 0).all(), "negative"
        assert ids.max() < 6
        torch._assert_async((x < 2).all())
        torch.testing.assert_close(x, x + 0)

    return run


def printing_tensors(accelerator, device):
    x, small = cpu_rand(3, 3).to(device), torch.tensor([1, 2, 3], device=device)

    def run():
        sink = io.StringIO()
        print(x, file=sink)
        print(small, f"loss={x.mean():.3f}", file=sink)
        print(x.shape, x.dtype, file=sink)
        return sink.getvalue().count("\n")

    return run


def numpy_interop(accelerator, device):
    x = cpu_rand(4, 5).to(device)

    def run():
        a = x.cpu().numpy()
        b = x.detach().half().cpu().numpy().astype(np.float32)
        c = torch.from_numpy(a + b).to(device)
        return np.asarray(c.cpu()).shape, float(np.float32(x.mean().item()))

    return run


def slices_from_device_values(accelerator, device):
    x, n = cpu_rand(10, 4).to(device), torch.tensor(6, device=device)

    def run():
        a, b = x[:n], x[n:]
        c = x[n]
        d = torch.zeros(int(n), device=device)
        return a.shape, b.shape, c, d, range(n)[-1]

    return run


def metric_accumulation(accelerator, device):
    predictions, labels = cpu_rand(20, 5).to(device), cpu_ints(5, (20,)).to(device)

    def run():
        confusion = torch.zeros(5, 5, device=device)
        flat = labels * 5 + predictions.argmax(1)
        confusion += torch.bincount(flat, minlength=25).view(5, 5)
        accuracy = confusion.diag().sum() / confusion.sum()
        return {"accuracy": accuracy.item(), "per class": confusion.sum(1).tolist()}

    return run
