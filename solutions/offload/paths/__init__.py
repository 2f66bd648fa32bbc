"""What a list of pieces may hold, and how it gets shorter."""
