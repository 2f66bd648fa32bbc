"""Programs with streams, pinned memory and graphs: right ones, and races of each kind."""
