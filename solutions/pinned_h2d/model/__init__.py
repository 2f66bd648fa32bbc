"""The decoder with image prompts that the ranges of this lesson are for."""
