"""Who is in a batch, of which kind, and what the chunked rule is told of it."""
