"""What a team lead may choose, by environment variables that `make hub` hands on."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from .refusal import Refusal

CHECKOUT = Path(__file__).resolve().parents[2]
FIRST_UID = 70_000
MOST_LEARNERS = 1_000
READ = ("HUB", "NAMES", "PORT", "USERS", "VENV")
"""Variables that `settings` reads, beside those that begin with HUB_."""


@dataclass(frozen=True)
class Settings:
    folder: Path
    """Holds state/, workspaces/ and, unless VENV names another one, environment/."""
    names: Path
    host_users: bool
    """Whether the names are users of this host, who log in by their own passwords."""
    port: int
    address: str
    memory_gb: float
    """Of each learner, all their processes together where the host has cgroups, else of each."""
    processes: int
    cores: float
    idle_minutes: int
    certificate: str
    key: str
    node: str
    """The folder with configurable-http-proxy."""
    gpu_memory_gib: float
    """GiB of the GPU that each process may take, or 0: then only one at a time has the GPU."""

    @property
    def hub_port(self) -> int:
        """The first of three that the hub's own parts use, on 127.0.0.1 alone."""
        return self.port + 81

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def workspaces(self) -> Path:
        return self.folder / "workspaces"

    @property
    def scripts(self) -> Path:
        """A copy of the checkout's, which every learner may read."""
        return self.folder / "scripts"

    @property
    def proxy_token(self) -> Path:
        return self.state / "proxy_token"

    @property
    def runtime(self) -> Path:
        """Sockets lie here: their paths must be short."""
        return _path("HUB_RUN", "/run/debubble")

    @property
    def gpu_queue(self) -> Path:
        return self.runtime / "gpu"

    @property
    def environment(self) -> Path:
        return _path("VENV", self.folder / "environment").resolve()


def settings() -> Settings:
    """Refusal for a variable that can't be what it says."""
    users = os.environ.get("USERS") or "list"
    if users not in ("list", "host"):
        raise Refusal(f"USERS={users} is unknown: write USERS=list or USERS=host")
    given = [name for name in ("HUB_CERT", "HUB_KEY") if os.environ.get(name)]
    if len(given) == 1:
        raise Refusal("TLS needs both HUB_CERT and HUB_KEY: name the files of both, or neither")
    certificate, key = [str(_path(name, "")) for name in given] or ("", "")
    for path in filter(None, (certificate, key)):
        if not Path(path).is_file():
            raise Refusal(f"{path} is not there: HUB_CERT and HUB_KEY name PEM files")
    folder = _path("HUB", "/srv/debubble")
    return Settings(
        folder=folder,
        names=_path("NAMES", "names.txt"),
        host_users=users == "host",
        port=int(_number("PORT", 8000, least=1, most=65_000)),
        address=os.environ.get("HUB_ADDRESS") or "127.0.0.1",
        memory_gb=_number("HUB_MEMORY_GB", 2.0, least=0.5),
        processes=int(_number("HUB_PROCESSES", 400, least=50)),
        cores=_number("HUB_CORES", 0, least=0),
        idle_minutes=int(_number("HUB_IDLE_MINUTES", 60, least=1)),
        certificate=certificate,
        key=key,
        node=str(_path("HUB_NODE", folder / "node")),
        gpu_memory_gib=_number("HUB_GPU_MEMORY", 0, least=0),
    )


def handed_on() -> dict[str, str]:
    """What the hub's services need to have the same settings: JupyterHub gives them no other
    variables."""
    return {
        name: text
        for name, text in os.environ.items()
        if name in READ or (name.startswith("HUB_") and name != "HUB_PASSWORD")
    }


def _path(name: str, otherwise: Path | str) -> Path:
    """From the checkout on, wherever the process stands: the hub itself stands elsewhere."""
    return CHECKOUT / (os.environ.get(name) or otherwise)


def _number(name: str, otherwise: float, *, least: float, most: float = 1e9) -> float:
    text = os.environ.get(name) or str(otherwise)
    try:
        number = float(text)
    except ValueError:
        raise Refusal(f"{name}={text} is no number: write {name}={otherwise:g}") from None
    if not least <= number <= most:
        raise Refusal(f"{name}={text} is out of reach: it may be {least:g} to {most:g}")
    return number
