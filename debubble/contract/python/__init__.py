"""Changes to how Python itself runs in a block: threads, garbage collection, warnings."""
