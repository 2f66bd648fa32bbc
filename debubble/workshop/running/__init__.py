"""A learner's file under pytest: loading it, its limits, its process, and the text of a failure."""
