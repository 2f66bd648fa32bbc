"""Compares two timelines: the effect of a change."""

from __future__ import annotations

from dataclasses import dataclass

from .bubbles import CAUSES
from .data import TimelineData

# The words for each count: singular, plural.
COUNT_WORDS = {
    "host_syncs": ("host sync", "host syncs"),
    "h2d_pageable": ("pageable upload", "pageable uploads"),
    "h2d_pinned": ("pinned upload", "pinned uploads"),
    "d2h": ("download", "downloads"),
    "d2d": ("copy on the device", "copies on the device"),
    "kernels": ("kernel", "kernels"),
    "graph_launches": ("graph launch", "graph launches"),
}


@dataclass(frozen=True, repr=False)
class Comparison:
    """The difference of the timelines `before` and `after` a change. The repr holds counts only, so
    that it is the same everywhere."""

    before: TimelineData
    after: TimelineData

    @property
    def count_differences(self) -> dict[str, int]:
        """The change, after minus before, of each count that changed, by the count's name."""
        before, after = self.before.counts(), self.after.counts()
        return {name: after[name] - before[name] for name in after if after[name] != before[name]}

    @property
    def span(self) -> tuple[float, float]:
        """The spans of the device's work in both timelines, in microseconds: (before, after)."""
        return self.before.span, self.after.span

    @property
    def idle_share(self) -> tuple[float, float]:
        return self.before.idle_share(), self.after.idle_share()

    @property
    def idle_by_cause(self) -> dict[str, tuple[float, float]]:
        """The share of the span, 0 to 1, in which the device was idle, for each cause: (before,
        after)."""
        before, after = self.before.idle_by_cause(), self.after.idle_by_cause()
        return {cause: (before[cause], after[cause]) for cause in CAUSES}

    def table(self, times: bool = True) -> str:
        """Returns a table of both timelines as aligned text: counts and, with `times`, span and
        idle shares."""
        before, after = self.before.counts(), self.after.counts()
        rows: list[tuple[str, ...]] = [("", "before", "after")]
        rows += [(COUNT_WORDS[name][1], str(before[name]), str(after[name])) for name in after]
        if times:
            labels = [timeline_word(self.before), timeline_word(self.after)]
            rows.append(("times are", *labels))
            rows.append(("device span", *(f"{span / 1000:.3f} ms" for span in self.span)))
            rows.append(("device idle", *(f"{share:.0%}" for share in self.idle_share)))
            for cause, shares in self.idle_by_cause.items():
                rows.append((f"  {cause}", *(f"{share:.0%}" for share in shares)))
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        return "\n".join(
            f"{name:<{widths[0]}}  {old:>{widths[1]}}  {new:>{widths[2]}}"
            for name, old, new in rows
        )

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return self.table(times=False)


def timeline_word(timeline: TimelineData) -> str:
    return "modelled" if timeline.modelled else "measured"
