"""The settings of a team lead, from environment variables that `make hub` passes on."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from .refusal import Refusal

CHECKOUT = Path(__file__).resolve().parents[2]
FIRST_UID = 70_000
"""The default of HUB_FIRST_UID."""
MOST_LEARNERS = 1_000
READ = ("HUB", "NAMES", "PORT", "USERS", "VENV")
"""Variables that `settings` reads, beside those that begin with HUB_."""


@dataclass(frozen=True)
class Settings:
    folder: Path
    """The folder with state/, workspaces/ and, unless VENV names another one, environment/."""
    names: Path
    host_users: bool
    """True if the names are users of this host, who log in by their own passwords."""
    port: int
    address: str
    memory_gb: float
    """Gigabytes that each learner may take: all their processes together if the host has cgroups,
    else each process."""
    processes: int
    cores: float
    idle_minutes: int
    certificate: str
    key: str
    node: str
    """The folder with configurable-http-proxy."""
    gpu_memory_gib: float
    """GiB of the GPU that each process may take, or 0: then only one at a time has the GPU."""
    first_uid: int
    """The lowest user id for learners. They get the first ids from here on that this host does not
    use."""
    trusted_proxies: tuple[str, ...]
    """Addresses of reverse proxies, whose statement of a request's origin is trusted."""

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def workspaces(self) -> Path:
        return self.folder / "workspaces"

    @property
    def scripts(self) -> Path:
        """The folder with a copy of the checkout's scripts, which every learner may read."""
        return self.folder / "scripts"

    @property
    def proxy_token(self) -> Path:
        return self.state / "proxy_token"

    @property
    def noted_passwords(self) -> Path:
        """The file with new passwords of the class and the teacher, for a team lead to read and
        remove."""
        return self.state / "passwords.txt"

    @property
    def runtime(self) -> Path:
        """The folder of the sockets, whose paths must be short."""
        return _path("HUB_RUN", "/run/debubble")

    @property
    def private(self) -> Path:
        """The folder of root's sockets, which learners can't enter."""
        return self.runtime / "private"

    @property
    def hub_socket(self) -> Path:
        """The socket to which learners' servers connect. Its folder is root's, so no learner can
        replace it."""
        return self.runtime / "hub.sock"

    @property
    def proxy_socket(self) -> Path:
        return self.private / "proxy.sock"

    @property
    def board_socket(self) -> Path:
        return self.private / "board.sock"

    @property
    def gpu_queue(self) -> Path:
        return self.runtime / "gpu"

    @property
    def environment(self) -> Path:
        return _path("VENV", self.folder / "environment").resolve()


def settings() -> Settings:
    """Returns the settings that the environment variables name. Raises Refusal for a variable with
    an invalid value."""
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
        first_uid=int(_number("HUB_FIRST_UID", FIRST_UID, least=1_000, most=2_000_000_000)),
        trusted_proxies=_addresses("HUB_TRUSTED_PROXY"),
    )


def socket_url(path: Path) -> str:
    """Returns the URL by which JupyterHub and its proxy name the Unix socket at `path`."""
    return f"http+unix://{quote(str(path), safe='')}"


def dropped_by_sudo() -> dict[str, str]:
    """Returns the hub's variables, by name, that were set before `sudo`, which drops them."""
    number = os.getpid()
    while number > 1:
        process = Path(f"/proc/{number}")
        try:
            if (process / "comm").read_text().strip() == "sudo":
                before = (process / "environ").read_bytes().split(b"\0")
                given = dict(text.decode(errors="replace").partition("=")[::2] for text in before)
                return {
                    name: text
                    for name, text in given.items()
                    if (name in READ or name.startswith("HUB_")) and name not in os.environ
                }
            number = int((process / "stat").read_text().rpartition(") ")[2].split()[1])
        except (OSError, ValueError):
            break
    return {}


def handed_on() -> dict[str, str]:
    """Returns the variables with which the hub's services have the same settings: JupyterHub passes
    them no other variables."""
    return {
        name: text
        for name, text in os.environ.items()
        if name in READ or (name.startswith("HUB_") and name != "HUB_PASSWORD")
    }


def _path(name: str, otherwise: Path | str) -> Path:
    """Returns the path in the variable `name`, or else `otherwise`, relative to the checkout
    whatever the process's folder: the hub runs in another folder."""
    return CHECKOUT / (os.environ.get(name) or otherwise)


def _addresses(name: str) -> tuple[str, ...]:
    given = [text.strip() for text in os.environ.get(name, "").split(",")]
    for text in filter(None, given):
        try:
            ipaddress.ip_address(text)
        except ValueError:
            raise Refusal(
                f"{name}={text} is no IP address: write those of your reverse proxies, with commas"
            ) from None
    return tuple(filter(None, given))


def _number(name: str, otherwise: float, *, least: float, most: float = 1e9) -> float:
    text = os.environ.get(name) or str(otherwise)
    try:
        number = float(text)
    except ValueError:
        raise Refusal(f"{name}={text} is no number: write {name}={otherwise:g}") from None
    if not least <= number <= most:
        raise Refusal(f"{name}={text} is out of reach: it may be {least:g} to {most:g}")
    return number
