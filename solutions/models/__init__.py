"""A model that the reader knows, on the engine: checkpoints of Hugging Face, text and images."""

from .pretrained import config_of, from_pretrained
from .served_model import ServedModel

__all__ = ["ServedModel", "config_of", "from_pretrained"]
