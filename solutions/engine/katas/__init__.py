"""What only the exercise needs."""
