"""What it was before."""
