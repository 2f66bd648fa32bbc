"""`debubble board FOLDER`: the board of a group whose folders lie on this machine."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path

import typer

from debubble.exercises.kata_files.catalogue import find_catalogue

from ..refusal import refuse, refusing

LOCAL = ("127.0.0.1", "::1", "localhost")
TRIES = 50
"""The number of ports that are tried, beginning with the requested one."""


def board(folder: Path, port: int, address: str, kept: Path | None) -> None:
    """Serves the board of the learners below `folder` until Ctrl-C, and stores revealed answers in
    `kept` if it is given. It runs no learner's code and writes nothing into their folders."""
    try:
        from tornado.httpserver import HTTPServer
    except ImportError:
        refuse("tornado is not installed here: `make lab` installs what the board needs")
    from .group import Group
    from .questions import answers, places
    from .server import Board, application, for_this_host

    with refusing():
        catalogue = find_catalogue()
    if not folder.is_dir():
        refuse(f"{folder} is no folder: name the one in which the learners' folders lie")
    root, token = catalogue.root, secrets.token_urlsafe(12)
    hosts = {*LOCAL, address} if address in LOCAL else set()
    ours = Board(Group(folder, catalogue.katas), kept, answers(root), places(root))
    server = HTTPServer(application(ours, for_this_host(token, lambda: hosts)))

    async def serve() -> None:
        found = _listen(server, port, address)
        shown = f"[{address}]" if ":" in address else address
        typer.echo(f"The board of {folder}, for everybody:  http://{shown}:{found}/")
        typer.echo(f"For the teacher:  http://{shown}:{found}/#teacher={token}")
        typer.echo("Ctrl-C ends it.")
        await asyncio.Event().wait()

    try:
        asyncio.run(serve())
    except KeyboardInterrupt:
        typer.echo("")


def _listen(server, port: int, address: str) -> int:
    """Listens on the first free port and returns it; refuses with a sentence if none is free."""
    reason = ""
    for candidate in range(port, port + TRIES):
        try:
            server.listen(candidate, address)
            return candidate
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
    refuse(f"no port from {port} on is free at {address} ({reason}): name another by --port")
