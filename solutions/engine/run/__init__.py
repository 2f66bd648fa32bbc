"""The parts that run a step: its inputs, its backends, its sampler, its graphs."""
