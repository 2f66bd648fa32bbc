"""Lists of pieces: their checks, ways to shorten them, and their way to the device."""
