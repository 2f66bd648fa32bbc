"""Modelled time on sim: the cost of work, its schedule on streams and copy engines, and races."""
