"""The batches that are served, and the limits of a step."""
