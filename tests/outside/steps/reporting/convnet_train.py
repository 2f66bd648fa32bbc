"""One training step of a small residual convolutional network with batch norm on 32x32 images using SGD with momentum."""

from typing import Callable

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, CLASSES = 16, 10


class ResidualBlock(nn.Module):
    def __init__(self, c_in: int, c_out: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(c_out)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(c_out)
        self.shortcut = nn.Identity()
        if stride != 1 or c_in != c_out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(c_in, c_out, 1, stride=stride, bias=False),
                nn.BatchNorm2d(c_out),
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        out = self.bn2(self.conv2(out))
        out += self.shortcut(x)
        return F.relu(out, inplace=True)


class SmallResNet(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 24, 3, padding=1, bias=False),
            nn.BatchNorm2d(24),
            nn.ReLU(inplace=True),
        )
        self.layers = nn.Sequential(
            ResidualBlock(24, 24),
            ResidualBlock(24, 48, stride=2),
            ResidualBlock(48, 96, stride=2),
        )
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(96, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layers(self.stem(x))
        return self.fc(torch.flatten(self.pool(x), 1))


def make(device: torch.device) -> Callable[[], None]:
    torch.manual_seed(7)
    model = SmallResNet(CLASSES).to(device)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, nesterov=True
    )
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=1000)
    images = torch.randint(0, 256, (256, 3, 32, 32), dtype=torch.uint8).to(device)
    labels = torch.randint(0, CLASSES, (256,)).to(device)
    mean = torch.tensor([0.49, 0.48, 0.45], device=device).view(1, 3, 1, 1)
    std = torch.tensor([0.25, 0.24, 0.26], device=device).view(1, 3, 1, 1)
    correct = torch.zeros((), dtype=torch.long, device=device)
    position = 0

    def step() -> None:
        nonlocal position
        model.train()
        x = images[position : position + BATCH].float().div_(255.0)
        y = labels[position : position + BATCH]
        position = (position + BATCH) % images.size(0)
        x = torch.flip((x - mean) / std, dims=[3])
        optimizer.zero_grad(set_to_none=True)
        logits = model(x)
        loss = criterion(logits, y)
        loss.backward()
        optimizer.step()
        scheduler.step()
        correct.add_((logits.argmax(dim=1) == y).sum())

    return step
