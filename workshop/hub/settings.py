"""What a team lead may choose, by environment variables that `make hub` hands on."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from .refusal import Refusal

CHECKOUT = Path(__file__).resolve().parents[2]
FIRST_UID = 70_000
MOST_LEARNERS = 1_000


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
        return Path(os.environ.get("HUB_RUN") or "/run/debubble")

    @property
    def gpu_queue(self) -> Path:
        return self.runtime / "gpu"

    @property
    def environment(self) -> Path:
        return Path(os.environ.get("VENV") or self.folder / "environment").resolve()


def settings() -> Settings:
    """Refusal for a variable that can't be what it says."""
    users = os.environ.get("USERS") or "list"
    if users not in ("list", "host"):
        raise Refusal(f"USERS={users} is unknown: write USERS=list or USERS=host")
    certificate, key = os.environ.get("HUB_CERT", ""), os.environ.get("HUB_KEY", "")
    if bool(certificate) != bool(key):
        raise Refusal("TLS needs both HUB_CERT and HUB_KEY: name the files of both, or neither")
    for path in filter(None, (certificate, key)):
        if not Path(path).is_file():
            raise Refusal(f"{path} is not there: HUB_CERT and HUB_KEY name PEM files")
    folder = Path(os.environ.get("HUB") or "/srv/debubble")
    return Settings(
        folder=folder,
        names=CHECKOUT / (os.environ.get("NAMES") or "names.txt"),
        host_users=users == "host",
        port=int(_number("PORT", 8000, least=1, most=65_000)),
        address=os.environ.get("HUB_ADDRESS") or "127.0.0.1",
        memory_gb=_number("HUB_MEMORY_GB", 2.0, least=0.5),
        processes=int(_number("HUB_PROCESSES", 400, least=50)),
        cores=_number("HUB_CORES", 0, least=0),
        idle_minutes=int(_number("HUB_IDLE_MINUTES", 60, least=1)),
        certificate=certificate,
        key=key,
        node=os.environ.get("HUB_NODE") or str(folder / "node"),
        gpu_memory_gib=_number("HUB_GPU_MEMORY", 0, least=0),
    )


def _number(name: str, otherwise: float, *, least: float, most: float = 1e9) -> float:
    text = os.environ.get(name) or str(otherwise)
    try:
        number = float(text)
    except ValueError:
        raise Refusal(f"{name}={text} is no number: write {name}={otherwise:g}") from None
    if not least <= number <= most:
        raise Refusal(f"{name}={text} is out of reach: it may be {least:g} to {most:g}")
    return number
