"""What ends the set-up: a sentence for whoever called `make`, and no traceback."""


class Failure(Exception):
    """Its text says what is wrong, and the way out."""
