"""Classify uint8 image batches sent from pinned and from pageable host memory with a bfloat16 depthwise network and bring the scores back."""

from typing import Callable

import torch
import torch.nn as nn


class InvertedResidual(nn.Module):
    def __init__(self, cin: int, cout: int, stride: int, expand: int):
        super().__init__()
        mid = cin * expand
        self.residual = stride == 1 and cin == cout
        self.layers = nn.Sequential(
            nn.Conv2d(cin, mid, 1, bias=False),
            nn.BatchNorm2d(mid),
            nn.Hardswish(),
            nn.Conv2d(mid, mid, 3, stride, 1, groups=mid, bias=False),
            nn.BatchNorm2d(mid),
            nn.Hardswish(),
            nn.Conv2d(mid, cout, 1, bias=False),
            nn.BatchNorm2d(cout),
        )

    def forward(self, x):
        return x + self.layers(x) if self.residual else self.layers(x)


def build() -> nn.Module:
    spec = [(16, 1, 1), (24, 2, 3), (24, 1, 3), (48, 2, 4), (48, 1, 4), (96, 2, 4), (96, 1, 4)]
    layers = [nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish()]
    cin = 16
    for cout, stride, expand in spec:
        layers.append(InvertedResidual(cin, cout, stride, expand))
        cin = cout
    layers += [
        nn.Conv2d(cin, 256, 1),
        nn.Hardswish(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(256, 200),
    ]
    return nn.Sequential(*layers)


def make(device: torch.device) -> Callable[[], None]:
    torch.manual_seed(4)
    pin = device.type != "cpu"
    model = build().to(device=device, dtype=torch.bfloat16).eval()
    mean = torch.tensor([0.485, 0.456, 0.406], device=device).view(1, 3, 1, 1)
    std = torch.tensor([0.229, 0.224, 0.225], device=device).view(1, 3, 1, 1)
    pageable = torch.randint(0, 256, (8, 64, 64, 3), dtype=torch.uint8)
    staged = torch.randint(0, 256, (8, 64, 64, 3), dtype=torch.uint8)
    if pin:
        staged = staged.pin_memory()
    result = torch.empty(8, 5, pin_memory=pin)
    classes = torch.empty(8, 5, dtype=torch.long, pin_memory=pin)

    def classify(raw):
        x = raw.permute(0, 3, 1, 2).float().div(255.0)
        x = (x - mean) / std
        probs = model(x.to(torch.bfloat16)).float().softmax(dim=-1)
        return probs.topk(5, dim=-1)

    @torch.inference_mode()
    def step() -> None:
        values, index = classify(staged.to(device, non_blocking=True))
        result.copy_(values)
        classes.copy_(index)
        values, index = classify(pageable.to(device))
        values.cpu()
        index.cpu().tolist()

    return step
