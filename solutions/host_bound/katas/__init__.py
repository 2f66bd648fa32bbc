"""What only exercises need."""
