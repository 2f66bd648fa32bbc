"""The benchmark: a step in one graph, in pieces and eagerly, beside its limits and a compiled
peer."""
