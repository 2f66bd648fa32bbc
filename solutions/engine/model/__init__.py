"""The hybrid decoder that the engine serves."""
