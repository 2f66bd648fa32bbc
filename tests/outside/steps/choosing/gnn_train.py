"""Train a graph network for node labels with attention weighted message passing by index_add and edge softmax."""

from typing import Callable

import torch
from torch import nn
import torch.nn.functional as F


class GraphAttention(nn.Module):
    def __init__(self, cin: int, cout: int, heads: int):
        super().__init__()
        self.heads, self.cout = heads, cout
        self.lin = nn.Linear(cin, heads * cout, bias=False)
        self.att_src = nn.Parameter(torch.randn(heads, cout) * 0.1)
        self.att_dst = nn.Parameter(torch.randn(heads, cout) * 0.1)

    def forward(self, x, src, dst):
        n = x.size(0)
        h = self.lin(x).view(n, self.heads, self.cout)
        score = F.leaky_relu((h * self.att_src).sum(-1)[src] + (h * self.att_dst).sum(-1)[dst], 0.2)
        index = dst.unsqueeze(1).expand_as(score)
        peak = torch.full((n, self.heads), -1e9, device=x.device)
        peak = peak.scatter_reduce(0, index, score.detach(), reduce="amax")
        weight = torch.exp(score - peak[dst])
        total = torch.zeros(n, self.heads, device=x.device).index_add(0, dst, weight)
        weight = weight / (total[dst] + 1e-9)
        out = torch.zeros_like(h).index_add(0, dst, h[src] * weight.unsqueeze(-1))
        return out.flatten(1)


class MeanConv(nn.Module):
    def __init__(self, cin: int, cout: int):
        super().__init__()
        self.own, self.neigh = nn.Linear(cin, cout), nn.Linear(cin, cout, bias=False)

    def forward(self, x, src, dst, degree):
        agg = torch.zeros_like(x)
        agg.index_add_(0, dst, x.index_select(0, src))
        return self.own(x) + self.neigh(agg / degree.unsqueeze(1))


class Net(nn.Module):
    def __init__(self, cin: int, classes: int):
        super().__init__()
        self.conv1 = MeanConv(cin, 64)
        self.conv2 = GraphAttention(64, 16, 4)
        self.conv3 = MeanConv(64, classes)
        self.norm = nn.BatchNorm1d(64)

    def forward(self, x, src, dst, degree):
        x = F.relu(self.norm(self.conv1(x, src, dst, degree)))
        x = F.dropout(x, 0.3, self.training)
        x = F.elu(self.conv2(x, src, dst)) + x
        return self.conv3(x, src, dst, degree)


def make(device: torch.device) -> Callable[[], None]:
    torch.manual_seed(13)
    nodes, edges, feats, classes = 2000, 12000, 64, 7
    src = torch.randint(0, nodes, (edges,), device=device)
    dst = torch.randint(0, nodes, (edges,), device=device)
    loops = torch.arange(nodes, device=device)
    src, dst = torch.cat([src, loops]), torch.cat([dst, loops])
    degree = torch.zeros(nodes, device=device).index_add_(
        0, dst, torch.ones(dst.numel(), device=device)
    )
    x = torch.randn(nodes, feats, device=device)
    y = torch.randint(0, classes, (nodes,), device=device)
    train_mask = torch.rand(nodes, device=device) < 0.6
    net = Net(feats, classes).to(device)
    opt = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)

    def step() -> None:
        net.train()
        opt.zero_grad()
        out = net(x, src, dst, degree)
        loss = F.cross_entropy(out[train_mask], y[train_mask])
        loss.backward()
        opt.step()
        float((out.argmax(dim=1) == y)[~train_mask].float().mean())

    return step
