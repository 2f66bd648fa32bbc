"""Measuring a GPU's cost model, which sim computes its times with."""
