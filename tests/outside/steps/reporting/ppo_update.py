"""One PPO update on a small actor-critic MLP with generalised advantage estimation and shuffled minibatches."""

from typing import Callable

import torch
import torch.nn as nn
from torch.distributions import Categorical

ENVS, HORIZON, OBS, ACTIONS = 16, 32, 24, 6
EPOCHS, MINIBATCH = 3, 128
GAMMA, LAM, CLIP = 0.99, 0.95, 0.2


class ActorCritic(nn.Module):
    def __init__(self, hidden: int = 128) -> None:
        super().__init__()
        self.actor = nn.Sequential(
            nn.Linear(OBS, hidden),
            nn.Tanh(),
            nn.Linear(hidden, hidden),
            nn.Tanh(),
            nn.Linear(hidden, ACTIONS),
        )
        self.critic = nn.Sequential(
            nn.Linear(OBS, hidden),
            nn.Tanh(),
            nn.Linear(hidden, hidden),
            nn.Tanh(),
            nn.Linear(hidden, 1),
        )

    def forward(self, obs: torch.Tensor):
        return Categorical(logits=self.actor(obs), validate_args=False), self.critic(obs).squeeze(
            -1
        )


def compute_gae(rewards, values, dones):
    advantages = torch.zeros_like(rewards)
    last = torch.zeros_like(rewards[0])
    for t in reversed(range(HORIZON)):
        not_done = 1.0 - dones[t]
        delta = rewards[t] + GAMMA * values[t + 1] * not_done - values[t]
        last = delta + GAMMA * LAM * not_done * last
        advantages[t] = last
    return advantages


def make(device: torch.device) -> Callable[[], None]:
    torch.manual_seed(11)
    model = ActorCritic().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2.5e-4, eps=1e-5)
    obs = torch.randn(HORIZON + 1, ENVS, OBS).to(device)
    rewards = torch.randn(HORIZON, ENVS).to(device)
    dones = (torch.rand(HORIZON, ENVS) < 0.05).float().to(device)
    total = ENVS * HORIZON

    def step() -> None:
        with torch.no_grad():
            dist, values = model(obs)
            actions = dist.sample()
            log_probs = dist.log_prob(actions)
            advantages = compute_gae(rewards, values, dones)
            returns = advantages + values[:-1]

        b_obs = obs[:-1].reshape(total, OBS)
        b_actions = actions[:-1].reshape(total)
        b_log_probs = log_probs[:-1].reshape(total)
        b_adv, b_returns = advantages.reshape(total), returns.reshape(total)

        for _ in range(EPOCHS):
            perm = torch.randperm(total, device=device)
            for begin in range(0, total, MINIBATCH):
                idx = perm[begin : begin + MINIBATCH]
                dist, value = model(b_obs[idx])
                ratio = (dist.log_prob(b_actions[idx]) - b_log_probs[idx]).exp()
                adv = b_adv[idx]
                adv = (adv - adv.mean()) / (adv.std() + 1e-8)
                unclipped = ratio * adv
                clipped = torch.clamp(ratio, 1.0 - CLIP, 1.0 + CLIP) * adv
                policy_loss = -torch.min(unclipped, clipped).mean()
                value_loss = 0.5 * (value - b_returns[idx]).pow(2).mean()
                loss = policy_loss + 0.5 * value_loss - 0.01 * dist.entropy().mean()
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()

    return step
