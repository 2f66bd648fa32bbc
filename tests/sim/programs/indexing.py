"""Programs that read and assign by index."""

import torch

from .grid import grid


def reading_through_masks(device):
    x = grid(device)
    m = x % 2 == 0
    return (
        x[m],
        x[m.to(torch.uint8)],
        x[~m],
        x[m[:, 0]],
        x[:, m[0]],
        x[m[:, 0], 1:3],
        m.sum(),
        x * m,
        (m & (x > 4)) | ~m,
    )


def adding_through_an_index(device):
    x = grid(device)
    m = x > 7
    x[m] += 1
    x[1:3] += 5
    x[:, ::2] *= 2
    x[0] -= x[1]
    x[[0, 1]] += 1
    i = torch.tensor([0, 2], device=device)
    x[i] /= 2
    x[i, i] += 3
    x[..., -1] **= 2
    return x


def assigning_through_a_mask(device):
    x = grid(device)
    m = x > 7
    x[m] = torch.arange(float(16), device=device)
    x[~m] = torch.tensor([2.0], device=device)
    return x


def assigning_with_index_tensors(device):
    x = grid(device)
    i = torch.tensor([0, 2], device=device)
    x[i] = torch.arange(6.0, device=device)
    x[i[:, None], i] = torch.tensor([[1.0], [2.0]], device=device)
    x[:, i] = torch.ones(4, 1, device=device)
    x[i, 1:4] = 9.0
    x[1:3, i] = torch.zeros(2, 2, device=device)
    x[None, i] = 3
    x[i, None] = torch.ones(2, 1, 6, device=device)
    return x


def assigning_in_three_dimensions(device):
    x = torch.arange(60.0).view(3, 4, 5).to(device)
    i = torch.tensor([0, 2], device=device)
    j = torch.tensor([1, 1], device=device)
    x[i, :, j] = torch.ones(2, 4, device=device)
    x[:, i, j] = torch.arange(6.0, device=device).view(3, 2)
    x[i, ..., 0] = 5
    x[0, i] = 2
    x[0, :, i] = torch.full((4, 2), 3.0, device=device)
    x[i, 1] = 8
    x[..., i] = x[..., j]
    x[..., None, 0] = 4
    x[1, None, i] = 6.0
    x[True, 1] = 3.0
    return x


def a_negative_step(device):
    x = grid(device)
    try:
        x[::-1]
    except ValueError as e:
        return str(e)


def indices_without_dimensions(device):
    x = grid(device)
    i = torch.tensor(2, device=device)
    x[i] = 0
    x[i, i] = 4
    y = x[i]
    x[i:] = 7
    x[:, i] += 1
    return x, y, x[i, i], torch.zeros(i, int(i), device=device), [1, 2, 3][i]


def bool_list(device):
    x = grid(device)
    x[[True, False, True, False]] = 5
    y = x[[True, False, True, False]]
    z = x[[0, 1], [1, 2]]
    x[[[0, 1], [1, 2]]] = 2 if False else 3
    return x, y, z


def indices_from_numpy(device):
    import numpy as np

    x = grid(device)
    x[np.array([0, 1])] = 5
    x[np.int64(2)] = 4
    x[np.array([True, False, False, True])] = 1
    x[range(2)] = 16
    return x, x[np.array([0, 1])], x[np.int64(1)], x[range(2)]


def setitem_types(device):
    x = grid(device).long()
    x[0] = True
    x[1] = 2.7
    x[2, 1] = torch.tensor(3.9, device=device)
    x[3] = torch.arange(6.0, device=device)
    b = torch.zeros(3, dtype=torch.bool, device=device)
    b[0] = 1
    b[1:] = torch.ones(2, device=device)
    h = torch.zeros(2, dtype=torch.half, device=device)
    h[0] = 70000.0
    i = torch.tensor([0], device=device)
    x[i] = 5
    x[i] = torch.tensor([7], device=device)
    return x, b, h


def ellips(device):
    x = torch.arange(60.0).view(3, 4, 5).to(device)
    x[..., 1:3] = 0
    x[0, ...] = 1
    x[...] += 1
    x[1, ..., 2] = 7
    x[..., None] = x[..., None] * 2
    x[:, :, None, 0] = 3
    return x, x[..., 0, None], x[None, ..., 1]


def scattering_in_place(device):
    x = grid(device)
    z = torch.zeros(4, 6, device=device)
    i = torch.tensor([2, 0, 2, 1], device=device)
    z.index_reduce_(0, i, x, "mean")
    z.scatter_(1, i[:, None], 1.5)
    x.put_(i[1:3], torch.ones(2, device=device))
    x.index_put_((i, i), torch.ones(4, device=device), accumulate=True)
    return x, z


def iterate(device):
    x = grid(device)
    return (
        [r.sum() for r in x],
        [v.item() for v in x[0]],
        dict(enumerate(x[0].tolist())),
        list(zip(x[0], x[1], strict=True)),
    )


def cpu_setitem_from_dev(device):
    z = torch.zeros(4, 6)
    x = grid(device)
    z[1] = x[1]
    z[0, 0] = x[0, 5]
    z[:, 2] = x[:, 3]
    return z
