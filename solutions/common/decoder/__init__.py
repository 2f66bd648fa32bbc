"""One decoder that lessons and the engine stand on: its shape, its layers, their KV cache."""
