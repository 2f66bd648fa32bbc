"""Checkpoints as Hugging Face stores them: a folder is read, a model of its family is made, and its
weights are brought to the device. A module for each family says what only that family has."""
