"""Run a PPO update with a hand-written LSTM cell policy, generalised advantage estimation and clipped minibatch epochs."""

from typing import Callable

import torch
from torch import nn

OBS, HIDDEN, ACTIONS, STEPS, ENVS = 24, 128, 5, 16, 32


class LSTMCell(nn.Module):
    def __init__(self, inputs: int, hidden: int):
        super().__init__()
        self.ih = nn.Linear(inputs, 4 * hidden)
        self.hh = nn.Linear(hidden, 4 * hidden, bias=False)

    def forward(self, x, h, c):
        i, f, g, o = (self.ih(x) + self.hh(h)).chunk(4, dim=-1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(OBS, HIDDEN), nn.Tanh())
        self.cell = LSTMCell(HIDDEN, HIDDEN)
        self.actor = nn.Linear(HIDDEN, ACTIONS)
        self.critic = nn.Linear(HIDDEN, 1)

    def forward(self, obs, done):
        x = self.enc(obs)
        h = c = torch.zeros(obs.size(1), HIDDEN, device=obs.device)
        outs = []
        for t in range(obs.size(0)):
            keep = 1.0 - done[t].unsqueeze(-1)
            h, c = self.cell(x[t], h * keep, c * keep)
            outs.append(h)
        h = torch.stack(outs)
        return torch.log_softmax(self.actor(h), dim=-1), self.critic(h).squeeze(-1)


def make(device: torch.device) -> Callable[[], None]:
    torch.manual_seed(9)
    net = Policy().to(device)
    opt = torch.optim.Adam(net.parameters(), lr=2.5e-4, eps=1e-5)
    obs = torch.randn(STEPS, ENVS, OBS, device=device)
    rewards = torch.randn(STEPS, ENVS, device=device)
    done = (torch.rand(STEPS, ENVS, device=device) < 0.1).float()

    def step() -> None:
        with torch.no_grad():
            old_all, values = net(obs, done)
            actions = torch.multinomial(old_all.exp().view(-1, ACTIONS), 1).view(STEPS, ENVS, 1)
            old = old_all.gather(-1, actions).squeeze(-1)
            adv, last = torch.zeros_like(rewards), torch.zeros(ENVS, device=device)
            for t in reversed(range(STEPS - 1)):
                alive = 1.0 - done[t + 1]
                delta = rewards[t] + 0.99 * values[t + 1] * alive - values[t]
                last = delta + 0.99 * 0.95 * alive * last
                adv[t] = last
            returns = adv + values
        for _ in range(2):
            for envs in torch.randperm(ENVS, device=device).chunk(2):
                logp_all, v = net(obs[:, envs], done[:, envs])
                logp = logp_all.gather(-1, actions[:, envs]).squeeze(-1)
                a = adv[:, envs]
                a = (a - a.mean()) / (a.std() + 1e-8)
                ratio = torch.exp(logp - old[:, envs])
                pg = -torch.min(ratio * a, ratio.clamp(0.8, 1.2) * a).mean()
                entropy = -(logp_all.exp() * logp_all).sum(-1).mean()
                loss = pg + 0.5 * (v - returns[:, envs]).pow(2).mean() - 0.01 * entropy
                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), 0.5)
                opt.step()
        loss.item()

    return step
