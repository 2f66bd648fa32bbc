"""A timeline as lanes and tables of text, as a PNG, and as the widget that a notebook shows."""
