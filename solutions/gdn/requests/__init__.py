"""Who is in a batch, in which order, and what each request brings."""
