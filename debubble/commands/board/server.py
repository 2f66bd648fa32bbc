"""The board's pages and data, for `debubble board` and for the hub's service.

The page requests the data each second, and the files are read on request, at most twice a second:
while no page is open, the board costs nothing.
"""

from __future__ import annotations

import hmac
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tornado import web

from debubble.accelerator.lease import FOLDER, line

from .group import Group, key_of
from .learner import LONGEST_TEXT, plain

PAGE = Path(__file__).with_name("page.html")
FRESH_SECONDS = 0.5
LONGEST_ANSWER = 500
MOST_REVEALED = 1_000
POLICY = (
    "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self'; connect-src 'self'"
)


class Board:
    """The data that the page shows, and the revealed answers, stored in a file if one is given.
    `answers` and `sections` are those of the chapters, by (chapter, question)."""

    def __init__(
        self,
        group: Group,
        kept: Path | None = None,
        answers: Mapping[tuple[str, str], str] | None = None,
        sections: Mapping[tuple[str, str], str] | None = None,
    ) -> None:
        self.group, self.kept = group, kept
        self.known = {key_of(*question): answer for question, answer in (answers or {}).items()}
        self.sections = {
            (chapter, plain(question, LONGEST_TEXT)): heading
            for (chapter, question), heading in (sections or {}).items()
        }
        self.revealed: dict[str, str] = {}
        self.looked = 0.0
        self.trouble = ""
        if kept and kept.exists():
            self.revealed = json.loads(kept.read_text(encoding="utf-8"))

    def data(self, *, teaches: bool) -> dict[str, object]:
        if time.monotonic() - self.looked >= FRESH_SECONDS:
            try:
                self.group.look()
                self.trouble = ""
            except OSError as error:
                self.trouble = f"{self.group.folder} can't be read: {error.strerror}"
            self.looked = time.monotonic()
        gpu = os.environ.get(FOLDER)
        waiting = line(Path(gpu)) if gpu else []
        return {
            "teaches": teaches,
            "trouble": self.trouble,
            "gpu": [
                {"who": plain(one.who, 30), "minutes": int(one.seconds / 60)} for one in waiting
            ],
            **self.group.shown(
                self.revealed, teaches=teaches, known=self.known, sections=self.sections
            ),
        }

    def reveal(self, key: str, answer: str | None) -> None:
        """Shows the predictions for the question `key` to all, with the answer in the teacher's
        words; None hides them again."""
        if answer is None:
            self.revealed.pop(key, None)
        elif key in self.revealed or len(self.revealed) < MOST_REVEALED:
            self.revealed[key] = plain(answer, LONGEST_ANSWER)
        if self.kept:
            beside = self.kept.with_suffix(".new")
            beside.write_text(json.dumps(self.revealed), encoding="utf-8")
            beside.replace(self.kept)


class Handler(web.RequestHandler):
    """The base of all handlers. A subclass decides which requests are the teacher's."""

    def initialize(self, board: Board) -> None:
        self.board = board

    def set_default_headers(self) -> None:
        self.set_header("Content-Security-Policy", POLICY)
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Referrer-Policy", "no-referrer")
        self.set_header("Cache-Control", "no-store")

    def teaches(self) -> bool:
        raise NotImplementedError


class PageHandler(Handler):
    def get(self) -> None:
        self.teaches()
        _ = self.xsrf_token  # Asking for it sets the cookie that the page sends back.
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.finish(PAGE.read_bytes())


class ScriptHandler(Handler):
    def get(self) -> None:
        self.set_header("Content-Type", "text/javascript; charset=utf-8")
        self.finish(PAGE.with_name("page.js").read_bytes())


class DataHandler(Handler):
    def get(self) -> None:
        self.finish(self.board.data(teaches=self.teaches()))


class RevealHandler(Handler):
    """Handles the teacher's request to reveal a question's answer, or to hide it again. It must
    have the header X-Board, which only the board's own page can send: another site's form can't."""

    def post(self) -> None:
        if self.request.headers.get("X-Board") != "reveal":
            raise web.HTTPError(403, "only the board's own page may reveal")
        if not self.teaches():
            raise web.HTTPError(403, "only the teacher may reveal")
        try:
            asked = json.loads(self.request.body)
            key, answer = asked["key"], asked["answer"]
        except (ValueError, KeyError, TypeError):
            raise web.HTTPError(400, "a key and an answer are needed") from None
        if not isinstance(key, str) or len(key) > 40 or not isinstance(answer, str | None):
            raise web.HTTPError(400, "a key and an answer are needed")
        self.board.reveal(key, answer)
        self.finish({})


def application(
    board: Board, says_who: type[Handler], prefix: str = "/", more: Sequence[tuple] = ()
) -> web.Application:
    """Returns the web application of `board`, with its paths below `prefix`, and the routes in
    `more`. `says_who` decides by `teaches()` which requests are the teacher's; it is a base of each
    handler."""
    about = {"board": board}
    routes: list[tuple] = [
        (f"{prefix}{path}", type(handler.__name__, (says_who, handler), {}), about)
        for path, handler in (
            ("", PageHandler),
            ("page.js", ScriptHandler),
            ("data", DataHandler),
            ("reveal", RevealHandler),
        )
    ]
    return web.Application([*routes, *more], max_body_size=10_000)


def for_this_host(token: str, hosts: Callable[[], set[str]]) -> type[Handler]:
    """Returns a handler base that lets anyone with the token teach, and anyone who reaches the page
    look. Requests with a foreign host name are refused, since another site's name could be made to
    lead here."""

    class OnThisHost(Handler):
        def prepare(self) -> None:
            if hosts() and self.request.host_name not in hosts():
                raise web.HTTPError(403, "this board has another address")

        def teaches(self) -> bool:
            return hmac.compare_digest(self.request.headers.get("X-Teacher", ""), token)

    return OnThisHost
