"""Starts a learner's server: in their workspace, as a user of their own, within their limits."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

from jupyterhub.spawner import LocalProcessSpawner
from traitlets import Any

from .limits import Cgroups, Limits, become
from .refusal import Refusal, tell
from .settings import socket_url
from .workspaces import Learner, Workspaces, end_processes_of, owner_of

KEPT = ("LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "LD_LIBRARY_PATH")
"""Variables of the host that a server gets too; a token of the hub is never among them."""

UNUSED_PORT = 8888
"""Jupyter Server's own default, the only port that it accepts beside a socket."""

FEW_AT_ONCE = asyncio.Semaphore(os.cpu_count() or 2)
"""The semaphore that lets one workspace for each core be made at once; further ones wait."""


class LearnerSpawner(LocalProcessSpawner):
    workspaces: Workspaces = Any(config=True)
    limits: Limits = Any(config=True)

    @property
    def learner(self) -> Learner:
        return self.workspaces.learner(self.user.name)

    @property
    def bound(self) -> Path:
        """The socket on which the server listens, in the learner's own folder."""
        return self.workspaces.settings.runtime / str(self.learner.uid) / "server.sock"

    @property
    def linked(self) -> Path:
        """The same socket, at a path that only root can change: the proxy connects to this path."""
        return self.workspaces.settings.private / f"server-{self.learner.uid}.sock"

    @property
    def server(self):
        """JupyterHub's record of the server, with the socket as its address: the database stores
        only a port."""
        record = LocalProcessSpawner.server.fget(self)
        if record is not None:
            record.connect_url = socket_url(self.linked)
        return record

    @server.setter
    def server(self, record) -> None:
        LocalProcessSpawner.server.fset(self, record)

    def get_args(self) -> list[str]:
        return [*super().get_args(), f"--ServerApp.sock={self.bound}"]

    def make_preexec_fn(self, name: str):
        learner = self.learner
        groups = Cgroups().make(name, self.limits)
        return become(learner.uid, learner.gid, self.limits, groups)

    def user_env(self, env: dict) -> dict:
        return env | self.workspaces.environment_of(self.learner)

    async def start(self):
        """Makes the workspace, starts the server and returns its URL. The server's log belongs to
        the learner, so an endless log fills the disk only up to the largest file that they may
        write."""
        try:
            learner = self.learner
            async with FEW_AT_ONCE:
                await asyncio.to_thread(self.workspaces.make, learner)
        except Refusal as refusal:
            self.log.error("%s", refusal)
            raise tell(507, str(refusal)) from None
        self.cmd = [str(learner.command / "python"), "-m", "jupyterhub.singleuser"]
        self.notebook_dir = str(learner.checkout)
        self.popen_kwargs = {"cwd": str(learner.checkout)}
        self.port = UNUSED_PORT
        for path in (self.bound, self.linked):
            path.unlink(missing_ok=True)
        await super().start()
        await self._link(learner)
        return socket_url(self.linked)

    async def _link(self, learner: Learner) -> None:
        """Waits for the server's socket, and links it to the path that the proxy uses. A learner
        could put a link to another service of this host in its place, and the proxy is root: so
        only a socket that the learner owns is accepted."""
        while await self.poll() is None:
            try:
                os.link(self.bound, self.linked, follow_symlinks=False)
            except FileNotFoundError:
                await asyncio.sleep(0.1)
                continue
            about = self.linked.lstat()
            if stat.S_ISSOCK(about.st_mode) and about.st_uid == learner.uid:
                return
            self.linked.unlink()
            raise tell(403, f"{self.bound} is no socket of {learner.name}'s server: remove it")
        raise tell(500, f"The server of {learner.name} ended before it listened: see the hub's log")

    async def _signal(self, sig: int) -> bool:
        """Signals the server only if it is still the learner's process: after a reboot its number
        may belong to another process."""
        if owner_of(self.pid) != self.learner.uid:
            return False
        return await super()._signal(sig)

    async def stop(self, now: bool = False) -> None:
        """Stops the server and, unless learners are users of the host, every process that it has
        started or left running."""
        await super().stop(now)
        self.linked.unlink(missing_ok=True)
        if not self.workspaces.settings.host_users:
            await asyncio.to_thread(end_processes_of, self.learner.uid)
