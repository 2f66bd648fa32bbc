"""Aggregates a batch of transaction records per customer with sorting, scatter sums, running totals and top-k selection."""

from typing import Callable, List

import torch

RECORDS, CUSTOMERS, TOP = 100_000, 2_000, 20


def group_stats(keys: torch.Tensor, values: torch.Tensor, groups: int):
    ones = torch.ones_like(values)
    counts = torch.zeros(groups, device=values.device).scatter_add_(0, keys, ones)
    sums = torch.zeros(groups, device=values.device).scatter_add_(0, keys, values)
    squares = torch.zeros(groups, device=values.device).scatter_add_(0, keys, values * values)
    mean = sums / counts.clamp(min=1.0)
    var = (squares / counts.clamp(min=1.0) - mean * mean).clamp(min=0.0)
    return counts, sums, mean, var.sqrt()


def running_totals(keys: torch.Tensor, values: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """Running total inside each customer; keys must be sorted."""
    total = torch.cumsum(values.double(), dim=0)
    ends = torch.cumsum(counts.long(), dim=0)
    starts = ends - counts.long()
    before = torch.where(starts > 0, total[(starts - 1).clamp(min=0)], torch.zeros_like(total[:1]))
    return (total - before[keys]).float()


def make(device: torch.device) -> Callable[[], None]:
    gen = torch.Generator().manual_seed(42)
    customer = torch.randint(0, CUSTOMERS, (RECORDS,), generator=gen).to(device)
    time = torch.randint(0, 86_400, (RECORDS,), generator=gen).to(device)
    amount = (torch.randn(RECORDS, generator=gen).abs() * 50.0).to(device)
    refund = (torch.rand(RECORDS, generator=gen) < 0.08).to(device)
    report: List[List[float]] = []
    shift = 0

    def step() -> None:
        nonlocal shift
        # move the clock so that every batch is ordered differently
        stamp = (time + shift) % 86_400
        shift += 977

        order = torch.argsort(customer * 86_400 + stamp)
        keys = customer[order]
        stamp = stamp[order]
        values = torch.where(refund[order], -amount[order], amount[order])

        night = (stamp < 6 * 3600) | (stamp >= 22 * 3600)
        values = values.masked_fill(night & (values.abs() < 1.0), 0.0)

        counts, sums, mean, std = group_stats(keys, values, CUSTOMERS)
        z = (values - mean[keys]) / (std[keys] + 1e-6)
        outlier = z.abs() > 3.0
        cleaned = torch.where(outlier, mean[keys], values)

        totals = running_totals(keys, cleaned, counts)
        peak = torch.zeros(CUSTOMERS, device=device).scatter_reduce_(0, keys, totals, reduce="amax")
        outliers = torch.zeros(CUSTOMERS, device=device).scatter_add_(0, keys, outlier.float())

        score = peak / (1.0 + sums.abs()) + 0.1 * outliers
        score = score.masked_fill(counts < 5, float("-inf"))
        best, who = torch.topk(score, TOP)

        hist = torch.zeros(24, device=device).scatter_add_(0, stamp // 3600, cleaned)
        share = hist / hist.sum()
        ranked, _ = torch.sort(share, descending=True)
        report[:] = torch.stack([best, who.float(), peak[who], ranked[:TOP]]).tolist()

    return step
