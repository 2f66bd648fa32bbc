"""Programs with layers of models, and algorithms of a few lines."""

import torch
import torch.nn.functional as F
from torch import nn

from .inputs import cpu_rand


def transformer_block(accelerator, device):
    torch.manual_seed(0)
    block = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0).to(device).train()
    x = cpu_rand(2, 5, 16).to(device)

    def run():
        with torch.no_grad():
            return block(x)

    return run


def rope_and_rms_norm(accelerator, device):
    x, weight = cpu_rand(1, 2, 6, 8).to(device), torch.ones(8, device=device)
    inverse = 1.0 / 10000 ** (torch.arange(0, 8, 2) / 8)

    def run():
        angles = torch.outer(torch.arange(6, device=device).float(), inverse.to(device))
        cos, sin = torch.cat([angles, angles], -1).cos(), torch.cat([angles, angles], -1).sin()
        half = torch.cat([-x[..., 4:], x[..., :4]], -1)
        y = x * cos + half * sin
        return y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6) * weight

    return run


def attention_sdpa_variants(accelerator, device):
    q, k = cpu_rand(1, 4, 8, 16).to(device).half(), cpu_rand(1, 2, 8, 16, seed=1).to(device).half()

    def run():
        a = F.scaled_dot_product_attention(q, q, q, is_causal=True)
        b = F.scaled_dot_product_attention(q, k, k, enable_gqa=True)
        return a, b

    return run


def small_conv_net(accelerator, device):
    torch.manual_seed(0)
    net = (
        nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(8, 4),
        )
        .to(device)
        .eval()
    )
    image = (cpu_rand(2, 12, 12, 3) * 255).byte()

    def run():
        with torch.inference_mode():
            x = image.to(device).permute(0, 3, 1, 2).float().div(255)
            x = (x - 0.5) / 0.25
            return net(x).softmax(-1).max(-1).indices.tolist()

    return run


def einsum_and_linalg(accelerator, device):
    a, b = cpu_rand(2, 4, 4).to(device), cpu_rand(2, 4, 4, seed=1).to(device)

    def run():
        c = torch.einsum("bij,bjk->bik", a, b)
        d = torch.einsum("bij,bij->b", a, b)
        e = torch.linalg.norm(a, dim=(-2, -1))
        f = torch.cdist(a, b)
        return c, d, e, f, torch.baddbmm(a, a, b), torch.outer(a[0, 0], b[0, 0])

    return run


def greedy_nms(accelerator, device):
    corner = cpu_rand(12, 2) * 8
    boxes, scores = torch.cat([corner, corner + 2], 1).to(device), cpu_rand(12, seed=5).to(device)

    def run():
        order, keep = scores.argsort(descending=True), []
        while order.numel() > 0:
            first = order[0]
            keep.append(first.item())
            low = torch.maximum(boxes[first, :2], boxes[order[1:], :2])
            high = torch.minimum(boxes[first, 2:], boxes[order[1:], 2:])
            overlap = (high - low).clamp(min=0).prod(1)
            order = order[1:][overlap / (8 - overlap) < 0.3]
        return keep

    return run


def kmeans_step(accelerator, device):
    points, centres = cpu_rand(60, 3).to(device), cpu_rand(4, 3, seed=1).to(device)

    def run():
        own = torch.cdist(points, centres).argmin(1)
        new = torch.stack([points[own == i].mean(0) for i in range(4)])
        moved = (new - centres).norm()
        return moved.item() < 1e-3

    return run


def rl_rollout_and_returns(accelerator, device):
    policy, state = cpu_rand(4, 2).to(device), cpu_rand(4).to(device)

    def run():
        rewards = []
        s = state
        for _ in range(4):
            action = torch.distributions.Categorical(logits=s @ policy).sample().item()
            s = torch.roll(s, 1) * 0.9
            rewards.append(1.0 if action in (0, 1) else 0.0)
        out, total = [], 0.0
        for reward in reversed(rewards):
            total = reward + 0.99 * total
            out.insert(0, total)
        returns = torch.tensor(out, device=device)
        return ((returns - returns.mean()) / (returns.std() + 1e-8)).shape

    return run


def cuda_graph_replay(accelerator, device):
    x, w = cpu_rand(4, 8).to(device), cpu_rand(8, 8).to(device)
    out, graph = torch.empty(4, 8, device=device), accelerator.graph()
    torch.mm(x, w, out=out)
    accelerator.synchronize()
    with graph.capture():
        torch.mm(x, w, out=out)
        out.relu_()

    def run():
        x.copy_(torch.ones(4, 8))
        graph.replay()
        graph.replay()
        return out.sum().item()

    return run


def complex_and_fft(accelerator, device):
    x = cpu_rand(4, 16).to(device)

    def run():
        spectrum = torch.fft.rfft(x)
        power = spectrum.abs().pow(2)
        back = torch.fft.irfft(spectrum, n=16)
        return power, back, torch.view_as_real(spectrum)

    return run


def padding_and_stacking(accelerator, device):
    parts = [cpu_rand(n, 4, seed=n).to(device) for n in (2, 5, 3)]

    def run():
        padded = nn.utils.rnn.pad_sequence(parts, batch_first=True)
        joined, stacked = torch.cat(parts), torch.stack([p[0] for p in parts])
        mixed = torch.cat([parts[0], parts[1].double()])
        return (
            padded,
            joined.chunk(2),
            stacked,
            mixed,
            torch.hstack(parts[:1]),
            F.pad(stacked, (1, 1)),
        )

    return run


def dtype_conversions(accelerator, device):
    x = cpu_rand(16, 16).to(device)

    def run():
        a = x.half().float()
        b = x.to(torch.bfloat16).to(torch.float64)
        c = (x * 10).long().to(torch.uint8)
        d = x.bool().int().type_as(x)
        return a, b, c, d, x.float() is x, c.to("cpu").dtype

    return run


def quantised_weights(accelerator, device):
    weight, x = cpu_rand(16, 16).to(device), cpu_rand(2, 16, seed=1).to(device)

    def run():
        scale = weight.abs().amax(1, keepdim=True) / 127
        packed = (weight / scale).round().clamp(-128, 127).to(torch.int8)
        restored = packed.to(x.dtype) * scale
        low, high = packed & 0xF, packed >> 4
        return F.linear(x, restored), low, high, (restored - weight).abs().max().item()

    return run
