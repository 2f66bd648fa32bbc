"""FlexAttention on sim: a mask that is traced, and attention to the blocks that it names."""
