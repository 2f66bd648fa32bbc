"""FlexAttention on sim: traces the mask function, and computes attention over the named blocks."""
