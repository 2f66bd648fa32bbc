"""The decoder with image prompts whose attention reads the prefix ranges."""
