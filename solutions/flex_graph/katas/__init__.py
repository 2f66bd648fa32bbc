"""Code that only the katas of this lesson need."""
