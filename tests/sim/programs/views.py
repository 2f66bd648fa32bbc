"""Programs with views, writes through views, and in-place changes."""

import torch

from .grid import grid


def transposing_in_place(device):
    x = grid(device)
    x.t_()
    assert x.shape == (6, 4), x.shape
    assert x.stride() == (1, 6)
    x[0] = 5
    return x


def squeezing_in_place(device):
    x = grid(device).unsqueeze(0).clone()
    x.squeeze_(0)
    assert x.shape == (4, 6)
    x.unsqueeze_(1)
    assert x.shape == (4, 1, 6)
    x.transpose_(0, 2)
    assert x.shape == (6, 1, 4)
    return x.contiguous()


def swapping_axes_in_place(device):
    x = grid(device)
    x.swapaxes_(0, 1)
    x.swapdims_(0, 1)
    x.as_strided_((2, 2), (6, 1))
    assert x.shape == (2, 2), x.shape
    return x


def transposing_a_view_in_place(device):
    b = grid(device)
    v = b[1:3]
    v.t_()
    v.zero_()
    assert v.shape == (6, 2)
    return b, v


def shrinking(device):
    x = grid(device)
    x.resize_(2, 3)
    assert x.shape == (2, 3)
    return x


def growing(device):
    x = grid(device)
    x.resize_(10, 6)
    assert x.shape == (10, 6)
    x[4:] = 1
    return x


def resizing_like_another(device):
    x = grid(device)
    x.resize_as_(torch.empty(2, 2, device=device))
    return x, tuple(x.shape)


def taking_over_memory(device):
    x = grid(device)
    y = torch.zeros(2, device=device)
    y.set_(x)
    assert y.shape == (4, 6)
    y[0] = 9
    return x, y


def replacing_data(device):
    x = grid(device)
    x.data = torch.ones(2, 2, device=device)
    assert x.shape == (2, 2)
    x.add_(1)
    return x


def writing_to_parts(device):
    x = grid(device)
    a, b = x.split(3, 1)
    a.zero_()
    b[0] = 7
    c, _ = x.chunk(2)
    c.add_(1)
    for r in x.unbind():
        r[0] = -1
    return x


def view_of_view(device):
    x = grid(device)
    v = x.view(24)[4:20].view(4, 4).t()[1:, ::2]
    v.mul_(10)
    v[0, 0] = 3
    return x


def writing_to_a_diagonal(device):
    x = grid(device)
    x.diagonal().fill_(5)
    x.diagonal(1).copy_(torch.ones(4, device=device))
    return x


def expandwrite(device):
    x = grid(device)
    y = x[0].expand(3, 6)
    z = y + 1
    x[0] = 9
    return y, z


def overlap(device):
    x = torch.arange(10.0).to(device)
    x[1:] = x[:-1].clone()
    x[2:5].copy_(x[5:8])
    return x


def contiguous_write(device):
    x = grid(device)
    y = x.contiguous()
    y[0] = 1
    z = x.reshape(24)
    z[3] = 7
    w = x.flatten()
    w[4] = 8
    q = x.t().reshape(24)
    q[0] = 99
    u = x.ravel()
    u[5] = 1
    return x


def strided(device):
    x = torch.empty_strided((2, 3), (1, 2), device=device)
    x.copy_(torch.arange(6.0).view(2, 3))
    y = torch.as_strided(grid(device), (2, 2), (1, 1), 3)
    z = torch.empty_like(x)
    return (
        x,
        x.stride(),
        y,
        z.stride(),
        torch.zeros_like(x.t()).stride(),
        x.contiguous().stride(),
        torch.randn(3, 2, device=device).t().clone().stride(),
    )


def storage_offset_ops(device):
    x = grid(device)[1:, 2:]
    y = x.clone()
    x.add_(1)
    x.clamp_(0, 9)
    x.relu_()
    x.neg_()
    x.exp_()
    return x, y, x.storage_offset(), x.stride()


def complex_numbers(device):
    z = torch.complex(grid(device), grid(device))
    return (
        z.conj().resolve_conj(),
        torch.view_as_real(z),
        z.real,
        z.imag,
        (z.conj() * 2).real,
        z.conj()[0].cpu().resolve_conj(),
        z.imag.neg(),
        z.abs(),
        z.conj().imag.cpu() + 0,
        z[0, 1].item(),
        z.conj()[0, 1].item(),
        z.conj().tolist()[0][:2],
    )


def writing_through_a_conjugate(device):
    z = torch.complex(grid(device), grid(device))
    w = z.conj()
    w[0] = 1 + 2j
    z.conj().mul_(2)
    z.imag.fill_(3)
    z.real[0] = 1
    return torch.view_as_real(z.resolve_conj())


def einops_like(device):
    x = torch.arange(48.0).view(2, 2, 12).to(device)
    y = x.view(2, 2, 3, 4).permute(0, 2, 1, 3).reshape(6, 8)
    y2 = x.unflatten(-1, (3, 4)).flatten(1, 2)
    return (
        y,
        y2,
        x.transpose(-1, -2).contiguous().view(2, 24),
        x.view(-1).as_strided((2, 3), (2, 1)),
    )


def tensor_methods(device):
    x = grid(device)
    return (
        x.is_contiguous(),
        x.t().is_contiguous(),
        x.numel(),
        x.dim(),
        x.element_size(),
        x.nbytes,
        len(x),
        x.storage_offset(),
        x[1].storage_offset(),
        x.dtype,
        x.layout,
        x.is_floating_point(),
        x.data_ptr() == x.view(-1).data_ptr(),
        x.is_set_to(x),
        x.untyped_storage().nbytes(),
        x.ndim,
        x.itemsize,
        x.is_shared() if device == "cpu" else False,
        x.get_device() == (0 if device != "cpu" else -1),
        hash(x) == hash(x),
        x.storage().size(),
        x._version,
    )
