"""Each learner's home: a user id of their own, a checkout to work in, and a front of the
environment.

    workspaces/NAME/            their home, which only they can look into
    workspaces/NAME/debubble/   the checkout, as it was when they came first

No user is added to the host: a number is enough to keep files and processes apart.
"""

from __future__ import annotations

import contextlib
import grp
import json
import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from .names import TEACHER
from .refusal import Refusal
from .settings import CHECKOUT, MOST_LEARNERS, Settings

MAKE_SECONDS = 300


@dataclass(frozen=True)
class Learner:
    name: str
    uid: int
    gid: int
    home: Path

    @property
    def checkout(self) -> Path:
        return self.home / "debubble"

    @property
    def command(self) -> Path:
        return self.checkout / ".venv" / "bin"


class Workspaces:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.bundle = settings.workspaces / "checkout.bundle"
        self.numbers = settings.state / "learners.json"

    def prepare(self, names: Iterable[str]) -> None:
        """Makes what all workspaces need: the folders, every learner's user id, a bundle of the
        committed checkout that all learners clone, and a copy of its scripts. Raises Refusal if a
        folder is not root's or the checkout is no clone."""
        for folder, mode in (
            (self.settings.folder, 0o755),
            (self.settings.state, 0o700),
            (self.settings.workspaces, 0o711),
            (self.settings.runtime, 0o711),
            (self.settings.private, 0o700),
            (self.settings.gpu_queue, 0o1777),
        ):
            folder.mkdir(parents=True, exist_ok=True)
            if folder.lstat().st_uid != os.geteuid():
                raise Refusal(
                    f"{folder} is not root's, so its owner could take the hub's place: "
                    "name another by HUB or HUB_RUN"
                )
            folder.chmod(mode)
        self._number(names)
        # The checkout may belong to any user: git is to trust it for this command alone.
        git = ["git", "-c", "safe.directory=*", "-C", str(CHECKOUT)]
        made = subprocess.run(
            [*git, "bundle", "create", "--quiet", str(self.bundle), "HEAD"],
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode:
            raise Refusal(
                f"{CHECKOUT} is no clone that git can read ({made.stderr.strip()}): clone the "
                "repository, and run `make hub` there"
            )
        self.bundle.chmod(0o644)
        # Learners' own copies of these may be older, or changed.
        shutil.rmtree(self.settings.scripts, ignore_errors=True)
        shutil.copytree(CHECKOUT / "scripts", self.settings.scripts)
        for path in (self.settings.scripts, *self.settings.scripts.rglob("*")):
            path.chmod(path.stat().st_mode | 0o055 if path.is_dir() else 0o644)

    def learner(self, name: str) -> Learner:
        return self._learner(name, self._known())

    def _learner(self, name: str, known: Mapping[str, int]) -> Learner:
        if self.settings.host_users:
            try:
                user = pwd.getpwnam(name)
            except KeyError:
                raise Refusal(
                    f"{name} is no user of this host: `useradd {name}`, or USERS=list"
                ) from None
            return Learner(name, user.pw_uid, user.pw_gid, Path(user.pw_dir))
        uid = known.get(name)
        if uid is None:
            raise Refusal(f"{name} is not on the list that the hub was started with")
        if owner := host_user_of(uid):
            raise Refusal(
                f"{name} has the user id {uid} in {self.numbers}, and so has {owner} of this host: "
                "name another HUB folder"
            )
        return Learner(name, uid, uid, self.settings.workspaces / name)

    def everybody(self) -> list[Learner]:
        """Returns all learners who were ever on the list, and the teacher. A user who left the host
        is left out."""
        known, found = self._known(), []
        for name in known:
            with contextlib.suppress(Refusal):
                found.append(self._learner(name, known))
        return found

    def learners(self) -> list[Learner]:
        """Returns everybody except the teacher."""
        return [one for one in self.everybody() if one.name != TEACHER]

    def make(self, learner: Learner) -> None:
        """Makes the missing parts of a learner's home and checkout. Existing files stay as they
        are.

        Raises Refusal, with one sentence, if they can't be made: the disk may be full.
        """
        if not self.settings.host_users:
            learner.home.mkdir(exist_ok=True)
            os.chown(learner.home, learner.uid, learner.gid)
            learner.home.chmod(0o700)
        runtime = self.settings.runtime / str(learner.uid)
        runtime.mkdir(parents=True, exist_ok=True)
        os.chown(runtime, learner.uid, learner.gid)
        runtime.chmod(0o700)
        whole = learner.checkout / "Makefile"
        if not self._as(learner, "test", "-f", str(whole)):
            # The clone is made beside its place first, so that an interrupted one is never taken
            # for complete.
            half = learner.home / ".debubble-half"
            self._as(learner, "rm", "-rf", str(half))
            self._must(learner, "git", "clone", "--quiet", str(self.bundle), str(half))
            self._as(learner, "git", "-C", str(half), "remote", "remove", "origin")
            if not self._as(learner, "mv", "-T", str(half), str(learner.checkout)):
                # They deleted most of it: the rest is kept beside the new one.
                kept = f"{learner.checkout}-{time.strftime('%Y%m%d-%H%M%S')}"
                self._must(learner, "mv", "-T", str(learner.checkout), kept)
                self._must(learner, "mv", "-T", str(half), str(learner.checkout))
        python = str(self.settings.environment / "bin" / "python")
        front = ["--front-of", str(learner.checkout)]
        self._must(learner, python, "-B", str(self.settings.scripts / "environment"), *front)
        # Their copies of the chapters, beside which predictions are stored.
        command = str(learner.command / "debubble")
        self._must(learner, "env", "-C", str(learner.checkout), command, "chapters")

    def environment_of(self, learner: Learner) -> dict[str, str]:
        """Returns the variables of all processes that run as this learner."""
        return {
            "HOME": str(learner.home),
            "USER": learner.name,
            "LOGNAME": learner.name,
            "SHELL": "/bin/bash",
            "VENV": str(self.settings.environment),
            "PYTHON": "",
            "VIRTUAL_ENV": str(learner.command.parent),
            "PATH": f"{learner.command}:/usr/local/bin:/usr/bin:/bin",
            "TMPDIR": str(self.settings.runtime / str(learner.uid)),
            "JUPYTER_RUNTIME_DIR": str(self.settings.runtime / str(learner.uid)),
            "DEBUBBLE_TERMINAL": str(learner.checkout / "scripts" / "terminal"),
            "DEBUBBLE_DEVICE": "sim",
            "DEBUBBLE_GPU_QUEUE": str(self.settings.gpu_queue),
            "DEBUBBLE_LEARNER": learner.name,
            **self._shared_gpu(),
        }

    def _shared_gpu(self) -> dict[str, str]:
        if not self.settings.gpu_memory_gib:
            return {}
        return {"DEBUBBLE_GPU_MEMORY": f"{self.settings.gpu_memory_gib:g}"}

    def remove(self, learner: Learner) -> None:
        shutil.rmtree(learner.home, ignore_errors=True)

    def _number(self, names: Iterable[str]) -> None:
        """Chooses a user id for each name that has none, before the first learner comes, and stores
        all of them. An id is never used again: the files of someone who left stay out of others'
        reach."""
        known = self._known()
        free = free_uids(self.settings.first_uid, {*known.values()})
        for name in names:
            if name not in known:
                known[name] = next(free)
        if len(known) > MOST_LEARNERS:
            raise Refusal(
                f"{len(known)} learners are known, {MOST_LEARNERS} may be: name another HUB folder"
            )
        beside = self.numbers.with_suffix(".new")
        beside.write_text(json.dumps(known, indent=1))
        beside.replace(self.numbers)
        if not self.settings.host_users:
            for name in known:
                self._learner(name, known)

    def _known(self) -> dict[str, int]:
        return json.loads(self.numbers.read_text()) if self.numbers.exists() else {}

    def _as(self, learner: Learner, *command: str) -> bool:
        return self._run(learner, command).returncode == 0

    def _must(self, learner: Learner, *command: str) -> None:
        done = self._run(learner, command)
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines() or ["it did not say why"]
            free = shutil.disk_usage(self.settings.workspaces).free / 1e9
            full = f"; {free:.1f} GB is free on the disk" if free < 1 else ""
            raise Refusal(f"The workspace of {learner.name} can't be made: {said[-1]}{full}")

    def _run(self, learner: Learner, command: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        """Runs a command as the learner, never as root: their home may contain links that lead
        elsewhere."""
        apart = os.geteuid() == 0
        return subprocess.run(
            command,
            cwd="/",
            env=self.environment_of(learner) | {"PATH": "/usr/local/bin:/usr/bin:/bin"},
            user=learner.uid if apart else None,
            group=learner.gid if apart else None,
            extra_groups=[] if apart else None,
            umask=0o077,
            capture_output=True,
            text=True,
            timeout=MAKE_SECONDS,
            check=False,
        )


def free_uids(first: int, taken: set[int]) -> Iterator[int]:
    """Yields user ids from `first` on that no user, group, process or container of this host has.
    Users of LDAP and Active Directory count too: each id is looked up by itself."""
    running = {owner_of(path.name) for path in Path("/proc").glob("[0-9]*")}
    lent = [*_lent("/etc/subuid"), *_lent("/etc/subgid")]
    for uid in range(first, 2**31):
        if uid in taken or uid in running or host_user_of(uid) or uid in (65_534, 65_535):
            continue
        if not any(uid in those for those in lent):
            yield uid


def host_user_of(uid: int) -> str:
    """Returns the name of this host's user or group that has the id, or ""."""
    for look_up in (pwd.getpwuid, grp.getgrgid):
        with contextlib.suppress(KeyError):
            return look_up(uid)[0]
    return ""


def _lent(path: str) -> list[range]:
    """Returns the ranges of ids in a file such as /etc/subuid that users may give to their
    containers: NAME:FIRST:COUNT on each line."""
    found = []
    with contextlib.suppress(OSError):
        for line in Path(path).read_text().splitlines():
            with contextlib.suppress(ValueError):
                _, first, count = line.split(":")
                found.append(range(int(first), int(first) + int(count)))
    return found


def end_servers_of(uid: int) -> int:
    """Ends the servers of a user of the host, who may do other things there too, and returns how
    many there were. A server ends its kernels and terminals itself."""
    servers = [
        path
        for path in Path("/proc").glob("[0-9]*")
        if owner_of(path.name) == uid and b"jupyterhub.singleuser" in _command(path)
    ]
    for path in servers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(path.name), signal.SIGTERM)
    return len(servers)


def end_processes_of(uid: int) -> int:
    """Ends all processes of a user id, however they were started, and returns how many there were.
    Leaves the processes of a user of the host alone."""
    if uid < 1000 or host_user_of(uid):
        return 0
    ended = 0
    for _ in range(20):
        found = [
            int(path.name)
            for path in Path("/proc").glob("[0-9]*")
            if owner_of(path.name) == uid and not _has_ended(path)
        ]
        if not found:
            break
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                ended += 1
        time.sleep(0.05)
    return ended


def owner_of(process: int | str) -> int:
    """Returns the user id of the process with this number, or -1 if there is no such process."""
    try:
        return Path(f"/proc/{process}").stat().st_uid
    except OSError:
        return -1


def _has_ended(path: Path) -> bool:
    """Returns True if the process with this folder in /proc has ended, even if its parent has not
    read its status yet."""
    try:
        return (path / "stat").read_text().rpartition(") ")[2].startswith(("Z", "X"))
    except OSError:
        return True


def _command(path: Path) -> bytes:
    try:
        return (path / "cmdline").read_bytes()
    except OSError:
        return b""
