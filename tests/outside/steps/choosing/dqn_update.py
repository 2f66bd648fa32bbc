"""Run double DQN updates from an on-device replay buffer with a dueling convolutional network and a soft target update."""

from typing import Callable

import torch
import torch.nn as nn
import torch.nn.functional as F


class DuelingNet(nn.Module):
    def __init__(self, actions: int):
        super().__init__()
        self.conv1 = nn.Conv2d(4, 16, 8, stride=4)
        self.conv2 = nn.Conv2d(16, 32, 4, stride=2)
        self.conv3 = nn.Conv2d(32, 32, 3, stride=1)
        self.value = nn.Sequential(nn.Linear(32 * 3 * 3, 128), nn.ReLU(), nn.Linear(128, 1))
        self.advantage = nn.Sequential(
            nn.Linear(32 * 3 * 3, 128), nn.ReLU(), nn.Linear(128, actions)
        )

    def forward(self, obs):
        x = obs.float() / 255.0
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = F.relu(self.conv3(x)).flatten(1)
        adv = self.advantage(x)
        return self.value(x) + adv - adv.mean(dim=1, keepdim=True)


def make(device: torch.device) -> Callable[[], None]:
    torch.manual_seed(8)
    actions, capacity, batch, gamma, tau = 6, 512, 32, 0.99, 0.005
    online = DuelingNet(actions).to(device)
    target = DuelingNet(actions).to(device)
    target.load_state_dict(online.state_dict())
    for p in target.parameters():
        p.requires_grad_(False)
    opt = torch.optim.RMSprop(online.parameters(), lr=2.5e-4, alpha=0.95, eps=0.01)
    obs = torch.randint(0, 256, (capacity, 4, 56, 56), dtype=torch.uint8, device=device)
    nxt = torch.randint(0, 256, (capacity, 4, 56, 56), dtype=torch.uint8, device=device)
    act = torch.randint(0, actions, (capacity,), device=device)
    rew = torch.randn(capacity, device=device).clamp(-1, 1)
    done = torch.rand(capacity, device=device) < 0.05

    # the environment's newest frame, kept on the host
    frame = torch.randint(0, 256, (1, 4, 56, 56), dtype=torch.uint8)
    cursor = [0]

    def step() -> None:
        with torch.no_grad():
            state = frame.to(device)
            a = int(online(state).argmax(dim=1).item())
        i = cursor[0] % capacity
        cursor[0] += 1
        obs[i].copy_(state[0])
        act[i] = a

        idx = torch.randint(0, capacity, (batch,), device=device)
        q = online(obs[idx]).gather(1, act[idx].unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            best = online(nxt[idx]).argmax(dim=1, keepdim=True)
            future = target(nxt[idx]).gather(1, best).squeeze(1)
            goal = rew[idx] + gamma * future * (~done[idx]).float()
        loss = F.smooth_l1_loss(q, goal)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(online.parameters(), 1.0)
        opt.step()
        with torch.no_grad():
            for tp, p in zip(target.parameters(), online.parameters()):
                tp.lerp_(p, tau)

    return step
