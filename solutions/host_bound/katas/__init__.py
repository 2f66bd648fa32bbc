"""Code of the exercises of chapter 07 alone."""
