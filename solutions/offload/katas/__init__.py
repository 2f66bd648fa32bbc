"""Code that only katas need: two solutions that no system runs, and the starting points of all
five."""
