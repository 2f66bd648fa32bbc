"""A serving loop for a model with KV blocks in host memory."""
