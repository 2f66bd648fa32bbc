"""A Gated DeltaNet layer, its parts, and a model of such layers."""
