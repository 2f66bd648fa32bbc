"""The step of the exercise as it was, with its faults."""
