"""What the drawings of several chapters share."""
