"""The views that people look at: timelines, sliders, predictions, progress, and an engine's
panel."""

import logging

# Matplotlib's search for a machine's fonts may take long, once. Its warning about that would stand
# in red below a reader's first drawing.
logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
