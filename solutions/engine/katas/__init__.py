"""Code that only the exercise needs."""
