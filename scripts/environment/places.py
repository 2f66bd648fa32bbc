"""The folders of an environment: the base that holds the packages, and the front of one checkout.

Without VENV both are `.venv`. With VENV=/srv/debubble the packages lie there, once for all users,
and each checkout's `.venv` is a front of some hundred KB: its own Python and commands, which see
the packages of the base and the modules of the checkout. If a checkout can't be written to, its
front lies in the cache folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from failure import Failure

STAMP = ".debubble.json"
BASE = "debubble-base.pth"
OVERRIDES = """{
    "@jupyterlab/apputils-extension:notification": {
        "fetchNews": "false",
        "checkForUpdates": false
    }
}
"""


@dataclass(frozen=True)
class Stamp:
    """A record of what a base holds: a fingerprint of the pins, its extras, path and Python; empty
    if filling it never finished."""

    fingerprint: str = ""
    extras: tuple[str, ...] = ()
    path: str = ""
    python: str = ""

    @property
    def is_whole(self) -> bool:
        return bool(self.fingerprint)

    def holds(self, fingerprint: str, extra: str, python: str) -> bool:
        return (
            self.fingerprint == fingerprint and extra in self.extras and python in ("", self.python)
        )


@dataclass(frozen=True)
class Places:
    base: Path
    front: Path

    @property
    def is_shared(self) -> bool:
        return self.base != self.front

    def stamp(self) -> Stamp:
        """Returns the stamp of the base: an empty one if filling it never finished, or if the
        folder was moved, because its commands name the old place."""
        try:
            found = json.loads((self.base / STAMP).read_text())
            stamp = Stamp(
                found["fingerprint"], tuple(found["extras"]), found["path"], found["python"]
            )
        except (OSError, ValueError, KeyError, TypeError):
            return Stamp()
        whole = stamp.path == str(self.base) and (self.base / "bin" / "python").exists()
        return stamp if whole else Stamp()

    def write_stamp(self, fingerprint: str, extras: list[str]) -> None:
        done = subprocess.run(
            [self.base / "bin/python", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True,
            text=True,
            check=True,
        )
        stamp = {
            "fingerprint": fingerprint,
            "extras": extras,
            "path": str(self.base),
            "python": done.stdout.strip(),
        }
        (self.base / STAMP).write_text(json.dumps(stamp) + "\n")

    def may_write_base(self) -> bool:
        return os.access(_nearest(self.base), os.W_OK)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Locks the base, so that only one process fills it. A second process says so and waits."""
        if self.is_shared:
            os.umask(0o022)
        self.base.mkdir(parents=True, exist_ok=True)
        folder = os.open(self.base, os.O_RDONLY)
        try:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                print(f"Another process is setting up {self.base}: waiting for it.", flush=True)
                fcntl.flock(folder, fcntl.LOCK_EX)
            except OSError:
                pass  # Some network drives know no locks.
            yield
        finally:
            os.close(folder)

    def clear(self) -> None:
        """Removes what an earlier set-up left in the base, but not the folder, which is locked.
        Raises Failure if the folder holds anything else."""
        entries = list(self.base.iterdir())
        if entries and not (self.base / "pyvenv.cfg").is_file():
            raise Failure(
                f"{self.base} is no environment, and holds {entries[0].name!r}: name another "
                "folder by VENV=, or empty this one"
            )
        for entry in entries:
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()

    def front_is_current(self) -> bool:
        """Returns True if the front was made for this base as it is now, and has not been moved."""
        try:
            noted = json.loads((self.front / STAMP).read_text())
        except (OSError, ValueError):
            return False
        return noted == self.note() and (self.front / "bin" / "python").exists()

    def note(self) -> dict[str, str]:
        stamp = (self.base / STAMP).read_text()
        return {
            "base": str(self.base),
            "front": str(self.front),
            "of": hashlib.sha256(stamp.encode()).hexdigest(),
        }


def find(root: Path, venv: str) -> Places:
    """Returns the base and the front for the checkout in `root` and for VENV, which may be relative
    to it."""
    own = root / ".venv"
    base = Path(os.path.normpath(root / Path(venv).expanduser())) if venv else own
    if base == own:
        try:
            noted = json.loads((own / STAMP).read_text())
            if "front" in noted:
                return Places(Path(noted["base"]), own)
        except (OSError, ValueError, KeyError, TypeError):
            pass
    front = own
    if not os.access(root, os.W_OK) and not os.access(own, os.W_OK):
        name = hashlib.sha256(str(root).encode()).hexdigest()[:12]
        front = cache() / f"checkout-{name}"
    return Places(front if base == own else base, front)


def home() -> Path:
    """Returns the user's home, or a folder of theirs below the temporary folder if they have no
    home that they can write to."""
    with contextlib.suppress(RuntimeError):
        found = Path.home()
        if os.access(_nearest(found), os.W_OK):
            return found
    return Path(tempfile.gettempdir()) / f"debubble-{os.getuid()}"


def user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or home() / ".cache")


def cache() -> Path:
    """Returns debubble's folder below the user's cache."""
    return user_cache() / "debubble"


def make_front(where: Places) -> None:
    """Makes the front of a checkout in place of an older one, in about a second: a small
    environment that sees the packages of the base. Raises Failure if another environment lies in
    its place."""
    if where.front.exists():
        if not (where.front / "pyvenv.cfg").is_file() or _is_base(where.front):
            raise Failure(
                f"{where.front} is an environment of its own already: remove it, or leave VENV out"
            )
        shutil.rmtree(where.front)
    python = where.base / "bin" / "python"
    command = [python, "-m", "venv", "--without-pip", where.front]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failure(f"{where.front} can't be made: {(done.stderr or done.stdout).strip()}")
    packages_of(where.front).joinpath(BASE).write_bytes(line_of_pth(packages_of(where.base)))
    for name in ("share", "etc"):
        if (where.base / name).is_dir():
            (where.front / name).symlink_to(where.base / name)
    for script in sorted((where.base / "bin").iterdir()):
        _copy_script(script, where)
    (where.front / STAMP).write_text(json.dumps(where.note()) + "\n")


def _is_base(folder: Path) -> bool:
    try:
        return "extras" in json.loads((folder / STAMP).read_text())
    except (OSError, ValueError):
        return not any(packages_of(folder).glob(BASE))


def packages_of(folder: Path) -> Path:
    """Returns the site-packages of the environment in `folder`, for any version of Python."""
    found = sorted((folder / "lib").glob("python3.*/site-packages"))
    if found:
        return found[0]
    paths = {"base": str(folder), "platbase": str(folder)}
    return Path(sysconfig.get_path("purelib", "venv", vars=paths))


def shebang(python: Path) -> bytes:
    """Returns the first lines of a script that `python` runs, at any path: the operating system
    takes no spaces, and no more than 127 bytes."""
    line = f"#!{python}\n"
    if " " not in line and len(line.encode()) < 127:
        return line.encode()
    quoted = str(python).replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    return f"#!/bin/sh\n'''exec' \"{quoted}\" \"$0\" \"$@\"\n' '''\n".encode()


def line_of_pth(folder: Path) -> bytes:
    """Returns the line of a .pth file that puts a folder on Python's path. Python reads the file in
    the locale's encoding, and with LC_ALL=C it doesn't even start if the file has a non-ASCII
    letter."""
    path = os.fsencode(folder)
    if path.isascii():
        return path + b"\n"
    return f"import os, sys; sys.path.append(os.fsdecode({path!r}))\n".encode()


def quiet_jupyterlab(base: Path) -> None:
    """Turns off JupyterLab's question about news on its first start, and its look for updates on
    the network."""
    settings = base / "share" / "jupyter" / "lab" / "settings"
    settings.mkdir(parents=True, exist_ok=True)
    (settings / "overrides.json").write_text(OVERRIDES)


def _copy_script(script: Path, where: Places) -> None:
    """Copies one command of the base if it runs on the base's Python, to run on the front's."""
    copy = where.front / "bin" / script.name
    if copy.exists() or script.is_symlink() or not script.is_file():
        return
    text = script.read_bytes()
    lines = text.splitlines(keepends=True)
    head = 3 if lines[0].startswith(b"#!/bin/sh") and b"'''exec'" in b"".join(lines[:2]) else 1
    if str(where.base).encode() in b"".join(lines[:head]) and text.startswith(b"#!"):
        copy.write_bytes(shebang(where.front / "bin" / "python") + b"".join(lines[head:]))
        copy.chmod(0o755)


def _nearest(path: Path) -> Path:
    """Returns the path, or its nearest parent folder that exists."""
    return next(folder for folder in (path, *path.parents) if folder.exists())
