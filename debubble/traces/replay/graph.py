"""Replays a trace as a graph of dependencies: the time that it takes if a wait were not in it.

Each event has two nodes, its start and its end. The host's calls keep their own durations and the
time between them, the device's work keeps its durations, its order in a stream and the latency from
its launch. A trace has no list of what waited for what, so the graph is read from times: the work
that a call waited for is the last that ended before the call returned, and work that starts late
waited for the work of another stream that had just ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple


class Edge(NamedTuple):
    """A node that has to be reached first, and the microseconds from it."""

    node: int
    delay: float


@dataclass(frozen=True)
class Graph:
    """The edges into each node. Event i starts at node 2i and ends at node 2i + 1; the last node is
    time 0. `order` has all nodes, each after those that it needs. `waiting` has the calls that
    wait for the device. `anchored` has the device's work whose call is not in the trace, and the
    call after it: such work has an edge from the call before that."""

    edges: list[list[Edge]]
    order: list[int]
    waiting: set[int]
    anchored: dict[int, int]

    def span(self, changed: dict[int, list[Edge]] | None = None) -> float:
        """Returns the microseconds from time 0 to the last end, with other edges for some nodes."""
        times = [0.0] * len(self.edges)
        instead = changed or {}
        for node in self.order:
            reached = 0.0
            for before, delay in instead.get(node) or self.edges[node]:
                time = times[before] + delay
                if time > reached:
                    reached = time
            times[node] = reached
        return max(times)

    def longest(self) -> tuple[list[float], list[int]]:
        """Returns the time of each node, and the nodes of the chain that ends last, in order."""
        times, needed = [0.0] * len(self.edges), list(range(len(self.edges)))
        for node in self.order:
            for before, delay in self.edges[node]:
                if times[before] + delay > times[node]:
                    times[node], needed[node] = times[before] + delay, before
        node = max(range(len(times)), key=times.__getitem__, default=0)
        chain = [node]
        while needed[node] != node and times[needed[node]] <= times[node]:
            node = needed[node]
            chain.append(node)
        return times, chain[::-1]

    @cached_property
    def unchanged(self) -> float:
        """Microseconds of the replay in which nothing is changed."""
        return self.span()


def in_order(edges_of: list[list[Edge]]) -> list[int]:
    """Returns the nodes in an order in which each comes after those that it needs. Clocks of
    host and device differ a little, so times alone don't give it."""
    needs = [len(edges) for edges in edges_of]
    then: list[list[int]] = [[] for _ in edges_of]
    for node, edges in enumerate(edges_of):
        for before, _ in edges:
            then[before].append(node)
    order, ready = [], [node for node, count in enumerate(needs) if not count]
    while ready:
        node = ready.pop()
        order.append(node)
        for following in then[node]:
            needs[following] -= 1
            if not needs[following]:
                ready.append(following)
    if len(order) < len(needs):
        reached = set(order)
        order += [node for node in range(len(needs)) if node not in reached]
    return order
