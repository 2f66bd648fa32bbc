"""Train a U-Net for binary segmentation with transposed convolutions and bilinear upsampling under autocast."""

from typing import Callable

import torch
from torch import nn
import torch.nn.functional as F


def double_conv(cin: int, cout: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1),
        nn.BatchNorm2d(cout),
        nn.LeakyReLU(0.1),
        nn.Conv2d(cout, cout, 3, padding=1),
        nn.BatchNorm2d(cout),
        nn.LeakyReLU(0.1),
    )


class UNet(nn.Module):
    def __init__(self, base: int = 16):
        super().__init__()
        self.d1 = double_conv(1, base)
        self.d2 = double_conv(base, base * 2)
        self.d3 = double_conv(base * 2, base * 4)
        self.mid = double_conv(base * 4, base * 8)
        self.up3 = nn.ConvTranspose2d(base * 8, base * 4, 2, stride=2)
        self.u3 = double_conv(base * 8, base * 4)
        self.up2 = nn.ConvTranspose2d(base * 4, base * 2, 2, stride=2)
        self.u2 = double_conv(base * 4, base * 2)
        self.up1 = nn.Sequential(
            nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False),
            nn.Conv2d(base * 2, base, 1),
        )
        self.u1 = double_conv(base * 2, base)
        self.out = nn.Conv2d(base, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        c = self.d3(F.max_pool2d(b, 2))
        m = self.mid(F.max_pool2d(c, 2))
        y = self.u3(torch.cat([self.up3(m), c], dim=1))
        y = self.u2(torch.cat([self.up2(y), b], dim=1))
        y = self.u1(torch.cat([self.up1(y), a], dim=1))
        return self.out(y)


def dice_loss(logits, target):
    prob = torch.sigmoid(logits)
    inter = (prob * target).sum(dim=(1, 2, 3))
    total = prob.sum(dim=(1, 2, 3)) + target.sum(dim=(1, 2, 3))
    return 1.0 - ((2.0 * inter + 1.0) / (total + 1.0)).mean()


def make(device: torch.device) -> Callable[[], None]:
    torch.manual_seed(3)
    model = UNet().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    images = torch.randn(8, 4, 1, 32, 32, device=device)
    masks = (
        (F.avg_pool2d(images.flatten(0, 1), 5, stride=1, padding=2) > 0)
        .float()
        .view(8, 4, 1, 32, 32)
    )
    pos = [0]

    def step() -> None:
        x, t = images[pos[0] % 8], masks[pos[0] % 8]
        pos[0] += 1
        x, t = torch.flip(x, dims=[3]), torch.flip(t, dims=[3])
        with torch.autocast(device.type, dtype=torch.bfloat16):
            logits = model(x)
        logits = logits.float()
        loss = F.binary_cross_entropy_with_logits(logits, t) + dice_loss(logits, t)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()

    return step
