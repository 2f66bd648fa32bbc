"""What only the exercises need."""
