"""Starts a learner's server: in their workspace, as a user of their own, within their limits."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from jupyterhub.spawner import LocalProcessSpawner
from traitlets import Any

from .limits import Cgroups, Limits, become
from .refusal import Refusal, tell
from .workspaces import Learner, Workspaces, end_processes_of

KEPT = ("LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "LD_LIBRARY_PATH")
"""Variables of the host that a server sees too; a token of the hub's is never among them."""


FEW_AT_ONCE = asyncio.Semaphore(os.cpu_count() or 2)
"""Clones that are made side by side; the others wait for their turn."""


class LearnerSpawner(LocalProcessSpawner):
    workspaces: Workspaces = Any(config=True)
    limits: Limits = Any(config=True)
    log_folder: Path = Any(config=True)

    @property
    def learner(self) -> Learner:
        return self.workspaces.learner(self.user.name)

    def make_preexec_fn(self, name: str):
        learner = self.learner
        groups = Cgroups().make(name, self.limits)
        return become(learner.uid, learner.gid, self.limits, groups)

    def user_env(self, env: dict) -> dict:
        return env | self.workspaces.environment_of(self.learner)

    async def start(self):
        """A server's log is the learner's own, so that one that never ends fills nobody's disk but
        up to the largest file that they may write."""
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
        return await super().start()

    async def stop(self, now: bool = False) -> None:
        """With everything that the server has started, and whatever that has left behind."""
        await super().stop(now)
        if not self.workspaces.settings.host_users:
            await asyncio.to_thread(end_processes_of, self.learner.uid)
