"""The errors of the hub: one sentence that ends `make hub`, or one that a learner reads."""

from __future__ import annotations

from tornado import web


class Refusal(Exception):
    """An error that ends `make hub`; its text says what is wrong, and the way out."""


def tell(status: int, sentence: str) -> web.HTTPError:
    """Returns the HTTP error whose page in the hub, or answer of an API, has this sentence on
    it."""
    error = web.HTTPError(status, sentence.replace("%", "%%"))
    error.jupyterhub_message = sentence
    return error
