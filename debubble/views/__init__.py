"""Views of a timeline: text lanes, tables, a picture, and the live widget."""
