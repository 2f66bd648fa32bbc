"""Memory of sim: blocks, their addresses, the accesses to them, and the copies in flight."""
