"""The gated delta rule, chunk by chunk and token by token."""
