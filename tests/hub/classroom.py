"""A real hub on this host, in its own folders, started as a team lead starts it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import requests

from workshop.hub.proxy import OLDEST_NODE

from .learner import Learner

ROOT = Path(__file__).parents[2]
CLASS_PASSWORD = "the class has this one"
PATIENCE = 300
LEARNERS = int(os.environ.get("DEBUBBLE_TEST_LEARNERS", "12"))
TRIES = """
def tries(what):
    try:
        what()
    except PermissionError:
        return "refused"
    except Exception as error:
        return repr(error)
    return "done"
"""
"""Code for a learner's kernel: tries(what) calls `what` and returns "refused", "done" or the
error."""


def why_not() -> str:
    """Returns the reason why no hub can be started on this machine; "" if it can."""
    if os.geteuid() != 0:
        return "a hub needs root"
    node = shutil.which("node")
    if node is None:
        return "JupyterHub's proxy needs Node.js"
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if int(said.lstrip("v").partition(".")[0]) < OLDEST_NODE:
        return f"JupyterHub's proxy needs Node.js {OLDEST_NODE}, and here is {said.strip()}"
    return ""


def listening() -> list[tuple[int, str]]:
    """Returns (port, socket's number) of each TCP socket of this host that listens."""
    lines = [
        line.split()
        for kind in ("tcp", "tcp6")
        for line in Path("/proc/net", kind).read_text().splitlines()[1:]
    ]
    return [(int(line[1].rpartition(":")[2], 16), line[9]) for line in lines if line[3] == "0A"]


def sockets_of(process: int) -> set[str]:
    """Returns the numbers of a process's open sockets."""
    links = []
    for path in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(OSError):
            links.append(os.readlink(path))
    return {link[len("socket:[") : -1] for link in links if link.startswith("socket:[")}


class Classroom:
    """A run of `make hub` for learners learner1, learner2, ... on its own port."""

    def __init__(self, folder: Path, learners: int, port: int = 8321) -> None:
        self.folder, self.port = folder, port
        self.address = f"http://127.0.0.1:{port}"
        self.names = [f"learner{n}" for n in range(1, learners + 1)]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "names.txt").write_text("\n".join(self.names))
        self.log = folder / "hub.log"
        self.process: subprocess.Popen | None = None

    def start(self) -> None:
        """Starts the hub, and returns once its login page is there."""
        process = self._launch()
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            assert process.poll() is None, self.log.read_text()[-3000:]
            try:
                if requests.get(f"{self.address}/hub/login", timeout=5).ok:
                    return
            except requests.RequestException:
                pass
            time.sleep(0.5)
        raise AssertionError(f"no hub in time: {self.log.read_text()[-3000:]}")

    def refusal(self) -> str:
        """Starts a hub that must refuse to run, and returns the end of its log."""
        assert self._launch().wait(PATIENCE) != 0
        return self.log.read_text()[-1000:]

    def _launch(self) -> subprocess.Popen:
        around = {name: text for name, text in os.environ.items() if not name.startswith("MAKE")}
        around |= {
            "HUB": str(self.folder),
            "NAMES": str(self.folder / "names.txt"),
            "PORT": str(self.port),
            "HUB_PASSWORD": CLASS_PASSWORD,
        }
        around.pop("VENV", None)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                ["make", "hub"],
                cwd=ROOT,
                env=around,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self.process

    def kill_hub(self) -> None:
        """Kills the processes of the hub and its services without any clean-up, as a crash does.
        The proxy and the learners' servers stay."""
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def end(self) -> None:
        self.kill_hub()
        around = os.environ | {"HUB": str(self.folder), "PORT": str(self.port)}
        around.pop("VENV", None)
        subprocess.run(["make", "hub-end"], cwd=ROOT, env=around, capture_output=True, check=False)

    def come_in(self, name: str) -> Learner:
        """Logs the learner in with the learner's own password, which is chosen now if this is the
        first time."""
        learner = Learner(self.address, name)
        own = f"a word of {name}"
        answer = learner.log_in(own)
        if answer.status_code == 403:
            answer = learner.log_in(CLASS_PASSWORD, own)
        assert answer.status_code == 302, answer.text
        return learner
