"""Code that the drawings of several chapters share."""
