"""The hub's parts, and, where root and Node.js are, a real hub with a class in it."""
