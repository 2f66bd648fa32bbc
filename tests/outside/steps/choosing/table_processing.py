"""Process an event table with sorting, grouping by key, running totals, scattered sums, masking and a host-side summary."""

from typing import Callable

import torch


def make(device: torch.device) -> Callable[[], None]:
    gen = torch.Generator().manual_seed(10)
    rows, users, items, width = 60000, 2000, 500, 16
    user = torch.randint(0, users, (rows,), generator=gen).to(device)
    item = torch.randint(0, items, (rows,), generator=gen).to(device)
    stamp = torch.rand(rows, generator=gen).to(device)
    price = torch.rand(rows, generator=gen).mul(100.0).to(device)
    price_missing = (torch.rand(rows, generator=gen) < 0.02).to(device)
    features = torch.randn(items, width, generator=gen).to(device)

    def order_events():
        by_time = torch.argsort(stamp)
        by_user = torch.sort(user[by_time], stable=True)
        order = by_time.index_select(0, by_user.indices)
        return by_user.values, order

    def session_totals(sorted_user, amount):
        running = torch.cumsum(amount.double(), dim=0)
        new_user = torch.ones_like(sorted_user, dtype=torch.bool)
        new_user[1:] = sorted_user[1:] != sorted_user[:-1]
        starts = torch.nonzero(new_user).squeeze(1)
        before = torch.where(
            starts > 0, running[(starts - 1).clamp(min=0)], torch.zeros_like(running[starts])
        )
        group = torch.cumsum(new_user.long(), dim=0) - 1
        return (running - before[group]).float(), starts

    @torch.no_grad()
    def step() -> None:
        # clean the prices
        clean = price.masked_fill(price_missing, 0.0)
        mean_price = clean.sum() / (~price_missing).sum()
        clean = torch.where(price_missing, mean_price, clean)
        low, high = torch.quantile(
            clean[:20000], torch.tensor([0.01, 0.99], device=device)
        ).unbind()
        clean = torch.clamp(clean, low, high)

        # per-user running totals in time order
        sorted_user, order = order_events()
        totals, starts = session_totals(sorted_user, clean[order])
        active, counts = torch.unique(user, return_counts=True)

        # spend per user and per item
        spend = torch.zeros(users, device=device).scatter_add_(0, user, clean)
        sold = torch.bincount(item, minlength=items)
        revenue = torch.zeros(items, device=device).index_add_(0, item, clean)
        average = revenue / sold.clamp(min=1)

        # user profiles from item features
        profile = torch.zeros(users, width, device=device)
        profile.scatter_add_(0, user.unsqueeze(1).expand(-1, width), features.index_select(0, item))
        profile = profile / profile.norm(dim=1, keepdim=True).clamp(min=1e-6)

        # best users, and the items which suit them
        best = torch.topk(spend, 100).indices
        scores = profile[best] @ features.t()
        scores = scores.masked_fill(sold.unsqueeze(0) < 5, float("-inf"))
        suggested = scores.topk(10, dim=1).indices

        share = torch.cumsum(torch.sort(spend, descending=True).values, dim=0) / spend.sum()
        summary = torch.stack(
            [mean_price, share[users // 10], average.max(), counts.float().mean(), totals.max()]
        )
        summary.tolist()
        suggested.cpu()
        bool((starts.numel() == active.numel()))

    return step
