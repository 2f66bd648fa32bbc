"""How a step is measured, and how what was measured is laid out."""
