"""Programs that use tensors as an inference engine does."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .grid import grid


def updating_a_kv_cache(device):
    B, S, H, D = 2, 8, 2, 4
    k = torch.zeros(B, S, H, D, device=device)
    pos = torch.tensor([3, 5], device=device)
    new = torch.arange(B * H * D, dtype=torch.float).view(B, 1, H, D).to(device)
    k.scatter_(1, pos[:, None, None, None].expand(B, 1, H, D), new)
    k[torch.arange(B, device=device), pos + 1] = new[:, 0]
    k.index_copy_(1, torch.tensor([0], device=device), new)
    k[:, 2:3] = new
    slot = torch.tensor([9, 1], device=device)
    k.view(B * S, H, D).index_put_((slot,), new[:, 0])
    k.view(-1, H, D)[slot] += 1
    return k


def a_ragged_batch(device):
    lens = torch.tensor([2, 4, 1], device=device)
    cu = F.pad(lens.cumsum(0), (1, 0))
    m = torch.arange(4, device=device)[None] < lens[:, None]
    out = torch.zeros(3, 4, device=device)
    out[m] = torch.arange(7.0, device=device)
    seqs = torch.arange(7, device=device).split(lens.tolist())
    return (
        cu,
        m,
        out,
        torch.repeat_interleave(lens, lens),
        torch.repeat_interleave(torch.arange(3, device=device), lens, output_size=7),
        nn.utils.rnn.pad_sequence(list(seqs), batch_first=True),
        torch.tensor_split(out, lens.cumsum(0)[:2].cpu()),
    )


def top_k_and_top_p(device):
    g = torch.Generator()
    logits = torch.randn(3, 11, generator=g.manual_seed(3)).to(device)
    temp = torch.tensor([0.7, 1.0, 1.3], device=device)
    scaled = logits / temp[:, None]
    v, i = scaled.topk(5, -1)
    scaled = scaled.masked_fill(scaled < v[:, -1:], -math.inf)
    s, o = scaled.sort(-1, descending=True)
    c = s.softmax(-1).cumsum(-1)
    s[c - s.softmax(-1) > 0.9] = -math.inf
    p = torch.empty_like(s).scatter_(-1, o, s).softmax(-1)
    q = torch.arange(1, 34, device=device).view(3, 11).float()
    return p, (p / q).argmax(-1), p.gather(1, i), p.log().nan_to_num(neginf=-9)


def a_repetition_penalty(device):
    logits = grid(device)
    ids = torch.tensor([[0, 1], [2, 2], [3, 4], [5, 5]], device=device)
    s = torch.gather(logits, 1, ids)
    s = torch.where(s < 0, s * 1.2, s / 1.2)
    logits.scatter_(1, ids, s)
    return logits


def rope(device):
    x = torch.arange(32.0).view(1, 4, 8).to(device)
    t = torch.arange(4, device=device)
    f = 1 / 10 ** (torch.arange(0, 4, device=device) / 4)
    c, s = (t[:, None] * f).cos(), (t[:, None] * f).sin()
    a, b = x.chunk(2, -1)
    r = torch.cat([a * c - b * s, b * c + a * s], -1)
    z = torch.view_as_complex(x.view(1, 4, 4, 2)) * torch.polar(
        torch.ones(4, 4, device=device), t[:, None] * f
    )
    return r, torch.view_as_real(z).flatten(2)


def attention(device):
    torch.manual_seed(1)
    q = torch.randn(2, 4, 5, 8).to(device)
    k = torch.randn(2, 2, 7, 8).to(device)
    k4 = torch.randn(2, 4, 7, 8).to(device)
    m = (torch.arange(7)[None] <= torch.arange(5)[:, None] + 2).to(device)
    results = (
        F.scaled_dot_product_attention(q, k4, k4),
        F.scaled_dot_product_attention(q, k4, k4, attn_mask=m),
        F.scaled_dot_product_attention(q, k, k, enable_gqa=True),
        F.scaled_dot_product_attention(q, q, q, is_causal=True),
        F.scaled_dot_product_attention(
            q, k4, k4, attn_mask=torch.zeros(5, 7, device=device), scale=0.5
        ),
    )
    # Memory has rows before heads on CUDA, and heads before rows on the CPU.
    return tuple(result.contiguous() for result in results)


def transformer(device):
    torch.manual_seed(1)
    m = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).to(device)
    x = torch.arange(32.0).view(1, 4, 8).to(device) / 9
    with torch.no_grad():
        a = m.eval()(x)
    return a


def norms(device):
    x = grid(device)
    return (
        F.layer_norm(x, (6,)),
        F.rms_norm(x, (6,)),
        nn.RMSNorm(6).to(device)(x),
        F.group_norm(x[None], 2),
        F.normalize(x),
        nn.LayerNorm(6).to(device)(x),
        nn.InstanceNorm1d(4).to(device)(x[None]),
    )


def conv(device):
    torch.manual_seed(0)
    c = nn.Conv2d(1, 2, 3, padding=1).to(device)
    x = torch.arange(32.0).view(1, 1, 4, 8).to(device)[:, :, :, :4]
    y = c(x.contiguous())
    y.sum().backward()
    c1 = nn.Conv1d(6, 6, 2, groups=6).to(device)
    return (
        y,
        c.weight.grad,
        c1(grid(device).t()[None].contiguous()[:, :6]).shape[0],
        F.max_pool2d(y, 2),
        F.interpolate(y, scale_factor=2),
    )


def recurrent_layers(device):
    torch.manual_seed(0)
    m = nn.LSTM(6, 3).to(device)
    g = nn.GRU(6, 3, batch_first=True).to(device)
    x = grid(device)[None]
    with torch.no_grad():
        return m(x)[0], g(x)[0]


def multinomial(device):
    pr = torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]], device=device)
    return (
        pr.multinomial(1),
        torch.distributions.Categorical(probs=pr + 1e-30).sample().shape[0],
        torch.multinomial(pr[0], 4, replacement=True),
    )


def a_generator(device):
    g = torch.Generator(device=device)
    g.manual_seed(3)
    a = torch.rand(3, device=device, generator=g)
    g.manual_seed(3)
    b = torch.rand(3, device=device, generator=g)
    s = torch.multinomial(torch.ones(5, device=device), 3, generator=g)
    torch.empty(3, device=device).exponential_(generator=g)
    return torch.equal(a, b), s.shape[0]


def seeds(device):
    torch.manual_seed(3)
    a = torch.rand(3, device=device)
    torch.manual_seed(3)
    b = torch.rand(3, device=device)
    torch.randn_like(b)
    torch.manual_seed(3)
    e = torch.empty(3, device=device).uniform_()
    torch.randint(0, 3, (4,), device=device)
    torch.randperm(4, device=device)
    torch.bernoulli(a)
    torch.normal(a, a.abs())
    return torch.equal(a, b), torch.equal(a, e)


def dropout(device):
    x = torch.ones(1000, device=device, requires_grad=True)
    y = F.dropout(x, 0.5)
    y.sum().backward()
    return (
        bool(((y == 0) | (y == 2)).all()),
        torch.equal(x.grad, y.detach()),
        F.dropout(x.detach(), 0.5, training=False),
    )


def inplace_random(device):
    x = torch.zeros(1000, device=device)
    x.normal_()
    x.uniform_()
    x.bernoulli_(0.5)
    x.random_(0, 3)
    x.exponential_()
    x.log_normal_()
    x.geometric_(0.5)
    x.cauchy_()
    return x.shape[0]


def losses(device):
    x = grid(device)
    t = torch.tensor([0, 1, 2, 3], device=device)
    return (
        F.cross_entropy(x, t),
        F.nll_loss(x.log_softmax(-1), t),
        F.mse_loss(x, x * 2),
        F.l1_loss(x, x * 2),
        F.smooth_l1_loss(x, x * 2),
        F.binary_cross_entropy_with_logits(x, x / 30),
        F.kl_div(x.log_softmax(-1), x.softmax(-1), reduction="batchmean"),
        F.one_hot(t, 5),
        F.one_hot(t),
        F.embedding_bag(t[None], x),
        F.cosine_similarity(x, x),
        F.gumbel_softmax(x, hard=True).sum(),
    )


def threads(device):
    from concurrent.futures import ThreadPoolExecutor

    def w(k):
        x = torch.full((8,), float(k)).to(device)
        for _ in range(20):
            x = x + 1
        return x.sum().item()

    with ThreadPoolExecutor(4) as e:
        return list(e.map(w, range(8)))
