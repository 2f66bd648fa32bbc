"""Train a convolutional variational autoencoder with an annealed KL weight and an exponential moving average of its weights."""

from typing import Callable

import torch
import torch.nn as nn
import torch.nn.functional as F


class VAE(nn.Module):
    def __init__(self, latent: int = 32, base: int = 24):
        super().__init__()
        self.base = base
        self.encoder = nn.Sequential(
            nn.Conv2d(1, base, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(base, base * 2, 4, stride=2, padding=1),
            nn.BatchNorm2d(base * 2),
            nn.ReLU(),
            nn.Flatten(),
        )
        flat = base * 2 * 7 * 7
        self.mu = nn.Linear(flat, latent)
        self.logvar = nn.Linear(flat, latent)
        self.expand = nn.Linear(latent, flat)
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(base * 2, base, 4, stride=2, padding=1),
            nn.BatchNorm2d(base),
            nn.ReLU(),
            nn.ConvTranspose2d(base, 1, 4, stride=2, padding=1),
        )

    def encode(self, x):
        h = self.encoder(x)
        return self.mu(h), self.logvar(h)

    def decode(self, z):
        h = F.relu(self.expand(z)).view(-1, self.base * 2, 7, 7)
        return self.decoder(h)

    def forward(self, x):
        mu, logvar = self.encode(x)
        std = torch.exp(0.5 * logvar)
        z = mu + std * torch.randn_like(std)
        return self.decode(z), mu, logvar


def make(device: torch.device) -> Callable[[], None]:
    torch.manual_seed(14)
    batch = 64
    data = torch.rand(1024, 1, 28, 28, device=device)
    model = VAE().to(device)
    average = copy_model(model)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    iteration = 0

    def step() -> None:
        nonlocal iteration
        iteration += 1
        beta = min(1.0, iteration / 1000.0)
        idx = torch.randperm(data.size(0), device=device)[:batch]
        x = data[idx]
        recon, mu, logvar = model(x)
        bce = F.binary_cross_entropy_with_logits(recon, x, reduction="sum") / batch
        kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp()) / batch
        loss = bce + beta * kld
        opt.zero_grad()
        loss.backward()
        opt.step()
        with torch.no_grad():
            for a, p in zip(average.parameters(), model.parameters()):
                a.mul_(0.999).add_(p, alpha=0.001)
        bce.item()
        kld.item()

    return step


def copy_model(model: VAE) -> VAE:
    other = VAE().to(next(model.parameters()).device)
    other.load_state_dict(model.state_dict())
    return other.requires_grad_(False)
