"""Loads checkpoints as Hugging Face stores them: reads a folder, makes a model of its family, and
copies its weights to the device. A module for each family has what only that family needs."""
