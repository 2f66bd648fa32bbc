"""Replays a trace as a graph of dependencies: the time that it takes if a wait were not in it.

Each event has two nodes, its start and its end. The host's calls keep their own durations and the
time between them, the device's work keeps its durations, its order in a stream and the latency from
its launch. A trace has no list of what waited for what, so the graph is read from times: the work
that a call waited for is the last that ended before the call returned, and work that starts late
waited for the work of another stream that had just ended.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
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

    def replay(self, changed: dict[int, list[Edge]] | None = None) -> tuple[list[float], list[int]]:
        """Returns the time of each node, and the node that each reached last needed, or itself.
        `changed` has other edges for some nodes."""
        times, needed = [0.0] * len(self.edges), list(range(len(self.edges)))
        instead = changed or {}
        for node in self.order:
            for before, delay in instead.get(node) or self.edges[node]:
                time = times[before] + delay
                if time > times[node]:
                    times[node], needed[node] = time, before
        return times, needed

    def span(self, changed: dict[int, list[Edge]] | None = None) -> float:
        """Returns the microseconds from time 0 to the last end."""
        return max(self.replay(changed)[0])

    def longest(self) -> tuple[list[float], list[int]]:
        """Returns the time of each node, and the nodes of the chain that ends last, in order."""
        times, needed = self.replay()
        chain = [max(range(len(times)), key=times.__getitem__)]
        while needed[chain[-1]] != chain[-1] and times[needed[chain[-1]]] <= times[chain[-1]]:
            chain.append(needed[chain[-1]])
        return times, chain[::-1]

    @cached_property
    def unchanged(self) -> float:
        """Microseconds of the replay in which nothing is changed."""
        return self.span()


def in_order(edges_of: list[list[Edge]]) -> list[int]:
    """Returns the nodes in an order in which each comes after those that it needs. Clocks of host
    and device differ a little, so times alone don't give it, and a few nodes may need each other:
    they come last."""
    needed = {node: [before for before, _ in edges] for node, edges in enumerate(edges_of)}
    sorter, order = TopologicalSorter(needed), list[int]()
    with suppress(CycleError):
        sorter.prepare()
    while ready := sorter.get_ready():
        order.extend(ready)
        sorter.done(*ready)
    return order + sorted(needed.keys() - set(order))
