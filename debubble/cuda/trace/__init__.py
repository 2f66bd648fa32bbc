"""A recording on CUDA: marks in a trace of Kineto, and the events that are read from it."""
