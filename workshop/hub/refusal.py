"""What ends `make hub`, and what stops a learner: one sentence."""

from __future__ import annotations

from tornado import web


class Refusal(Exception):
    """Its text says what is wrong, and the way out."""


def tell(status: int, sentence: str) -> web.HTTPError:
    """An error page of the hub with this sentence on it; an API's answer has it too."""
    error = web.HTTPError(status, sentence.replace("%", "%%"))
    error.jupyterhub_message = sentence
    return error
