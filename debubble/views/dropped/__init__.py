"""A trace that is dropped on a page and read there: nothing is sent."""
