"""Train a small residual network on image batches copied from pinned host memory, with SGD momentum."""

from typing import Callable

import torch
import torch.nn as nn
import torch.nn.functional as F


class BasicBlock(nn.Module):
    def __init__(self, cin: int, cout: int, stride: int = 1):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.short = nn.Identity()
        if stride != 1 or cin != cout:
            self.short = nn.Sequential(
                nn.Conv2d(cin, cout, 1, stride=stride, bias=False), nn.BatchNorm2d(cout)
            )

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        out = self.bn2(self.conv2(out))
        out += self.short(x)
        return F.relu(out, inplace=True)


class ResNet(nn.Module):
    def __init__(self, widths=(32, 64, 128), depth: int = 2, classes: int = 100):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, widths[0], 3, padding=1, bias=False),
            nn.BatchNorm2d(widths[0]),
            nn.ReLU(inplace=True),
        )
        blocks, cin = [], widths[0]
        for i, w in enumerate(widths):
            for j in range(depth):
                blocks.append(BasicBlock(cin, w, stride=2 if i > 0 and j == 0 else 1))
                cin = w
        self.body = nn.Sequential(*blocks)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(cin, classes)

    def forward(self, x):
        x = self.pool(self.body(self.stem(x)))
        return self.fc(torch.flatten(x, 1))


def make(device: torch.device) -> Callable[[], None]:
    torch.manual_seed(2)
    pin = device.type != "cpu"
    batch = 16
    images = [torch.randn(batch, 3, 32, 32) for _ in range(4)]
    labels = [torch.randint(0, 100, (batch,)) for _ in range(4)]
    if pin:
        images = [t.pin_memory() for t in images]
        labels = [t.pin_memory() for t in labels]
    net = ResNet().to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
    count = 0

    def step() -> None:
        nonlocal count
        x = images[count % 4].to(device, non_blocking=True)
        y = labels[count % 4].to(device, non_blocking=True)
        count += 1
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        loss.item()

    return step
