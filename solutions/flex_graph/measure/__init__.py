"""What the full graph is compared with."""
