"""What ends `make hub`: one sentence for the team lead."""


class Refusal(Exception):
    """Its text says what is wrong, and the way out."""
