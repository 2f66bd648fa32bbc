"""The step that meets all eight sites, and what it computes with."""
