"""A model that the reader knows, on the engine: checkpoints of Hugging Face, text and images."""

import solutions.engine  # noqa: F401  # its classes are bases of some here
