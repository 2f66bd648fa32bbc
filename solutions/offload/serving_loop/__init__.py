"""A model that is served with its KV blocks in host memory."""
