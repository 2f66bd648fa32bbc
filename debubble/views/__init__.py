"""What people look at: timelines, sliders, predictions, progress, and an engine's panel."""
