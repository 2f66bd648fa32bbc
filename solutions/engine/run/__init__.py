"""How a step runs: its inputs, its backends, its sampler, its graphs."""
