"""A Gated DeltaNet layer, what it is made of, and a model of such layers."""
