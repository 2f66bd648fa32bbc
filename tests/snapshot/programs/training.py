"""Programs with training steps, checkpoints and random numbers."""

import copy
import io

import torch
import torch.nn.functional as F
from torch import nn

from .inputs import cpu_ints, cpu_rand, little_model


def training_step_sgd(accelerator, device):
    model = little_model(device)
    x, y = cpu_rand(6, 8).to(device), cpu_ints(3, (6,)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, foreach=False)

    def run():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return run


def training_step_adamw_loop(accelerator, device):
    model = little_model(device)
    x, y = cpu_rand(6, 8).to(device), cpu_ints(3, (6,)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, foreach=False)

    def run():
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
        optimizer.step()
        return loss.detach()

    return run


def training_step_adamw_default(accelerator, device):
    """Returns a training step with the AdamW implementation that PyTorch chooses for the device:
    foreach on CUDA."""
    model = little_model(device)
    x, y = cpu_rand(6, 8).to(device), cpu_ints(3, (6,)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    def run():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return run


def training_step_adamw_fused(accelerator, device):
    model = little_model(device)
    x, y = cpu_rand(6, 8).to(device), cpu_ints(3, (6,)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, fused=True)

    def run():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    return run


def gradient_accumulation_and_norms(accelerator, device):
    model = little_model(device)
    batches = [
        (cpu_rand(4, 8, seed=i).to(device), cpu_ints(3, (4,), seed=i).to(device)) for i in range(2)
    ]

    def run():
        model.zero_grad()
        losses = []
        for x, y in batches:
            loss = F.cross_entropy(model(x), y) / 2
            loss.backward()
            losses.append(loss.detach())
        norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
        if not torch.isfinite(norm):
            return None
        return torch.stack(losses).mean().item(), norm.item()

    return run


def amp_forward(accelerator, device):
    model, x = little_model(device), cpu_rand(6, 8).to(device)

    def run():
        with torch.no_grad(), torch.autocast(device.type, dtype=torch.bfloat16):
            out = model(x)
        return out.float().sum()

    return run


def amp_grad_scaler(accelerator, device):
    model = little_model(device)
    x, y = cpu_rand(6, 8).to(device), cpu_ints(3, (6,)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=False)
    scaler = torch.amp.GradScaler(device.type, init_scale=8.0)

    def run():
        optimizer.zero_grad()
        with torch.autocast(device.type, dtype=torch.float16):
            loss = F.cross_entropy(model(x).float(), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        return scaler.get_scale()

    return run


def ema_update(accelerator, device):
    model = little_model(device)
    shadow = copy.deepcopy(model)

    def run():
        with torch.no_grad():
            for kept, new in zip(shadow.parameters(), model.parameters(), strict=True):
                kept.lerp_(new, 0.01)
                kept.mul_(0.99).add_(new, alpha=0.01)

    return run


def checkpoint_save_and_load(accelerator, device):
    model = little_model(device)

    def run():
        file = io.BytesIO()
        torch.save(model.state_dict(), file)
        file.seek(0)
        return len(torch.load(file, map_location="cpu", weights_only=True))

    return run


def checkpoint_load_onto_device(accelerator, device):
    file = io.BytesIO()
    torch.save({k: v.cpu() for k, v in little_model(device).state_dict().items()}, file)
    model = little_model(device)

    def run():
        file.seek(0)
        state = torch.load(file, map_location=device, weights_only=True)
        model.load_state_dict(state)

    return run


def state_dict_copies(accelerator, device):
    model = little_model(device)

    def run():
        on_host = {name: value.cpu() for name, value in model.state_dict().items()}
        model.load_state_dict(on_host)
        twin = copy.deepcopy(model)
        twin.load_state_dict(model.state_dict())
        return len(on_host)

    return run


def generators_and_seeds(accelerator, device):
    generator = torch.Generator(device=device)

    def run():
        generator.manual_seed(1)
        a = torch.randn(4, 4, device=device, generator=generator)
        b = torch.rand(4, device=device)
        c = torch.randint(0, 10, (5,), device=device)
        d = torch.randperm(16, device=device)
        e = torch.bernoulli(torch.full((4,), 0.5, device=device))
        f = F.dropout(a, 0.1, training=True)
        return [t.shape for t in (a, b, c, d, e, f)]

    return run


def multinomial_variants(accelerator, device):
    probs = cpu_rand(3, 20).to(device)

    def run():
        a = torch.multinomial(probs, 1)
        b = torch.multinomial(probs, 4, replacement=True)
        c = torch.distributions.Categorical(probs=probs, validate_args=False).sample()
        d = torch.distributions.Categorical(logits=probs).sample()
        return a.shape, b.shape, c.shape, d.shape

    return run
