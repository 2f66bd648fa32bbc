"""Which path copies a list of pieces sooner, as measured on a GPU."""
