"""One decoder that lessons and the engine stand on: its shape, its layers in two halves, their KV
cache, and what lies around them. Which attention runs between the halves is the user's."""
