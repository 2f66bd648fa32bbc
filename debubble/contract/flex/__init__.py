"""One call of FlexAttention: its arguments, and what its compilation depends on."""
