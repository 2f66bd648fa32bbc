"""Runs JupyterHub's idle culler on the hub's socket: the culler itself only knows ports."""

from __future__ import annotations

import socket
from typing import Any

from jupyterhub_idle_culler import main
from tornado.netutil import Resolver

from .settings import settings


class ToTheHub(Resolver):
    """A resolver that leads every host name to the hub's socket."""

    def initialize(self, path: str) -> None:
        self.path = path

    async def resolve(
        self, host: str, port: int, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[tuple[int, Any]]:
        return [(socket.AF_UNIX, self.path)]


if __name__ == "__main__":
    Resolver.configure(ToTheHub, path=str(settings().hub_socket))
    main()
