"""The error that ends the set-up: a sentence for the user of `make`, and no traceback."""


class Failure(Exception):
    """An error of the set-up; its text says what is wrong, and the way out."""
