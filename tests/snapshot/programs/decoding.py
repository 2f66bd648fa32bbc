"""Programs that sample, and use a sampled token."""

import math

import torch
import torch.nn.functional as F

from .inputs import cpu_ints, cpu_rand


def greedy_decode_with_stop(accelerator, device):
    embed, head = cpu_rand(50, 16).to(device), cpu_rand(16, 50, seed=1).to(device)
    prompt = cpu_ints(50, (2, 4)).to(device)

    def run():
        ids, done = prompt, torch.zeros(2, dtype=torch.bool, device=device)
        for _ in range(5):
            logits = embed[ids[:, -1]] @ head
            token = logits.argmax(-1)
            done |= token == 3
            ids = torch.cat([ids, token[:, None]], 1)
            if done.all():
                break
        return ids.tolist()

    return run


def sampler_temperature_topk(accelerator, device):
    logits = cpu_rand(4, 1000).to(device)
    temperature = torch.tensor([0.7, 1.0, 1.3, 0.9], device=device)

    def run():
        scaled = logits / temperature.unsqueeze(1)
        values, _ = torch.topk(scaled, 40, dim=-1)
        scaled = scaled.masked_fill(scaled < values[:, -1:], -float("inf"))
        probs = torch.softmax(scaled, -1)
        return torch.multinomial(probs, 1).squeeze(1).shape

    return run


def sampler_top_p(accelerator, device):
    logits = cpu_rand(4, 1000).to(device)

    def run():
        ordered, order = torch.sort(logits, descending=True)
        cumulative = torch.cumsum(F.softmax(ordered, dim=-1), dim=-1)
        remove = cumulative > 0.9
        remove[..., 1:] = remove[..., :-1].clone()
        remove[..., 0] = 0
        mask = remove.scatter(1, order, remove)
        kept = logits.masked_fill(mask, -math.inf)
        return kept.softmax(-1)

    return run


def sampler_gumbel_argmax(accelerator, device):
    logits = cpu_rand(8, 512).to(device)

    def run():
        probs = torch.softmax(logits, dim=-1, dtype=torch.float32)
        noise = torch.empty_like(probs).exponential_(1).clamp_min_(1e-10)
        return probs.div_(noise).argmax(dim=-1).shape

    return run


def sampler_min_p_and_penalties(accelerator, device):
    logits, seen = cpu_rand(3, 100).to(device), cpu_ints(100, (3, 12)).to(device)

    def run():
        counts = torch.zeros(3, 101, dtype=torch.long, device=device)
        counts.scatter_add_(1, seen, torch.ones_like(seen))
        counts = counts[:, :100]
        out = logits - 0.1 * counts - 0.2 * (counts > 0)
        probs = out.softmax(-1)
        floor = probs.amax(-1, keepdim=True) * 0.05
        out[probs < floor] = -float("inf")
        return out

    return run


def beam_search(accelerator, device):
    table = cpu_rand(30, 30).log_softmax(-1).to(device)

    def run():
        beams, width = torch.zeros(1, 1, dtype=torch.long, device=device), 3
        scores = torch.zeros(1, device=device)
        for _ in range(4):
            total = scores[:, None] + table[beams[:, -1]]
            scores, flat = total.view(-1).topk(min(width, total.numel()))
            parent, token = flat // 30, flat % 30
            beams = torch.cat([beams[parent], token[:, None]], 1)
        best = int(scores.argmax())
        return beams[best].cpu().numpy().tolist()

    return run


def speculative_acceptance(accelerator, device):
    draft, target = cpu_ints(5, (4, 6)).to(device), cpu_ints(5, (4, 6), seed=1).to(device)

    def run():
        same = (draft == target).int()
        accepted = torch.cumprod(same, dim=1).sum(1)
        longest = accepted.max().item()
        lengths = [int(n) for n in accepted]
        return longest, lengths

    return run
