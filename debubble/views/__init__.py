"""What people look at: timelines, sliders, predictions, progress, and an engine's panel."""

import logging

# Looking for a machine's fonts may take long, once. That is nothing to be warned of: it would stand
# in red below a reader's first drawing.
logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
