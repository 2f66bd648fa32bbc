"""The board as a service of the hub: learners see it, and the teacher reveals answers."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress

from jupyterhub.services.auth import HubOAuthCallbackHandler, HubOAuthenticated
from tornado import web
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_unix_socket

from debubble.commands.board.group import Group, Member
from debubble.commands.board.questions import answers, places
from debubble.commands.board.server import Board, Handler, application
from debubble.exercises.kata_files.catalogue import Catalogue

from .passwords import Passwords
from .settings import CHECKOUT, Settings, settings
from .workspaces import Workspaces


class OfTheHub(HubOAuthenticated, Handler):
    """A handler that answers only users of the hub; its administrators teach."""

    @web.authenticated
    def prepare(self) -> None:
        pass

    def teaches(self) -> bool:
        user = self.current_user
        return bool(user and user.get("admin"))


class LearnersOfTheHub(Group):
    """The learners of the hub, for its board: their progress files are looked for in their homes,
    and must belong to them."""

    def __init__(self, ours: Settings) -> None:
        super().__init__(ours.workspaces, Catalogue(CHECKOUT).katas)
        self.workspaces, self.passwords = Workspaces(ours), Passwords(ours.state)

    def members(self) -> list[Member]:
        named = self.passwords.named()
        return [
            Member(one.name, one.home, (), one.uid, one.name if one.name in named else "")
            for one in self.workspaces.learners()
        ]


async def serve(ours: Settings) -> None:
    os.environ["DEBUBBLE_GPU_QUEUE"] = str(ours.gpu_queue)
    prefix = os.environ["JUPYTERHUB_SERVICE_PREFIX"]
    revealed = ours.state / "revealed.json"
    board = Board(LearnersOfTheHub(ours), revealed, answers(CHECKOUT), places(CHECKOUT))
    app = application(
        board, OfTheHub, prefix, more=[(f"{prefix}oauth_callback", HubOAuthCallbackHandler)]
    )
    app.settings["cookie_secret"] = os.urandom(32)
    HTTPServer(app).add_socket(bind_unix_socket(str(ours.board_socket), mode=0o600))
    await asyncio.Event().wait()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):  # Ctrl-C ends the hub, and with it the board.
        asyncio.run(serve(settings()))
