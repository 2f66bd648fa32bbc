"""Memory of sim: blocks, their addresses, who touched them, and the copies under way to them."""
