"""The decoder whose attention is FlexAttention."""
