"""Programs with KV caches, masks, pages and ragged batches."""

import torch
import torch.nn.functional as F

from .inputs import cpu_rand


def kv_cache_update_positions(accelerator, device):
    k = torch.zeros(2, 16, 2, 8, device=device)
    new, pos = cpu_rand(2, 2, 8).to(device), torch.tensor([3, 7], device=device)
    rows = torch.arange(2, device=device)

    def run():
        k[rows, pos] = new
        k[:, 0] = 0.0
        k[0, 1:3] = new[:1]
        return k.sum()

    return run


def kv_cache_index_copy(accelerator, device):
    cache, new = torch.zeros(1, 4, 32, 8, device=device), cpu_rand(1, 4, 1, 8).to(device)

    def run():
        for step in range(3):
            where = torch.tensor([step], device=device)
            cache.index_copy_(2, where, new)
        return cache[:, :, :3]

    return run


def paged_gather_scatter(accelerator, device):
    pool = cpu_rand(10, 4, 8).to(device)
    tables, lens = torch.tensor([[1, 3, -1], [2, 0, 5]]), torch.tensor([5, 11])

    def run():
        table = tables.to(device, non_blocking=True)
        blocks = pool[table.clamp(min=0)].flatten(1, 2)
        valid = torch.arange(12, device=device)[None] < lens.to(device)[:, None]
        mean = (blocks * valid[..., None]).sum(1) / valid.sum(1, keepdim=True)
        slots = table[:, 0] * 4 + 1
        pool.view(40, 8).index_put_((slots,), mean)
        return mean

    return run


def causal_and_padding_mask(accelerator, device):
    lens = torch.tensor([3, 5], device=device)
    q = cpu_rand(2, 2, 5, 8).to(device)

    def run():
        causal = torch.ones(5, 5, dtype=torch.bool, device=device).tril()
        pad = torch.arange(5, device=device)[None, :] < lens[:, None]
        mask = causal[None, None] & pad[:, None, None, :]
        bias = torch.zeros(2, 1, 5, 5, device=device).masked_fill_(
            ~mask, torch.finfo(torch.float32).min
        )
        scores = q @ q.transpose(-1, -2) / 8**0.5 + bias
        return scores.softmax(-1) @ q

    return run


def ragged_to_padded(accelerator, device):
    values, lens = cpu_rand(9, 4).to(device), torch.tensor([2, 4, 3], device=device)

    def run():
        out = torch.zeros(3, int(lens.max()), 4, device=device)
        mask = torch.arange(out.size(1), device=device) < lens[:, None]
        out[mask] = values
        back = out[mask]
        return back, [part.shape[0] for part in values.split(lens.tolist())]

    return run


def cu_seqlens_and_positions(accelerator, device):
    lens = torch.tensor([3, 1, 4], device=device)

    def run():
        ends = F.pad(lens.cumsum(0, dtype=torch.int32), (1, 0))
        which = torch.repeat_interleave(torch.arange(3, device=device), lens)
        known = torch.repeat_interleave(torch.arange(3, device=device), lens, output_size=8)
        position = torch.arange(8, device=device) - ends[:-1][known]
        return which, position

    return run


def last_token_selection(accelerator, device):
    hidden, lens = cpu_rand(3, 7, 8).to(device), [7, 2, 5]

    def run():
        last = torch.tensor(lens, device=device) - 1
        a = hidden[torch.arange(3, device=device), last]
        b = hidden[[0, 1, 2], [n - 1 for n in lens]]
        return torch.equal(a, b)

    return run
