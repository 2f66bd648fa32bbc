"""A recording on CUDA: marks in a trace of Kineto, and what is read from it."""
