"""One transfer: its blocks, their addresses, and what came of it."""
