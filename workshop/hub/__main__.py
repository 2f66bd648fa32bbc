"""`make hub`: checks the set-up, prints how learners come in, and starts JupyterHub."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from . import proxy
from .limits import Cgroups
from .names import TEACHER, read_names
from .passwords import Passwords
from .refusal import Refusal
from .settings import CHECKOUT, Settings, dropped_by_sudo, settings
from .workspaces import Learner, Workspaces, end_processes_of, end_servers_of

TRIES = 6
EVERYWHERE = ("0.0.0.0", "::")
HUB_SECONDS = 20.0
LOCAL = ("127.0.0.1", "::1", "localhost")
LEARNER_GB = 1.0
"""The most gigabytes, as measured, for a learner who runs a chapter and a kata on sim."""


def main() -> None:
    try:
        if os.geteuid() != 0:
            raise Refusal(
                "The hub keeps learners apart by user ids, and needs root: run it with sudo"
            )
        match sys.argv[1:]:
            case []:
                start(settings())
            case ["forget", *names]:
                forget(settings(), names)
            case ["end"]:
                end(settings())
            case other:
                raise Refusal(f"{' '.join(other)!r} is unknown: there are forget and end")
    except Refusal as refusal:
        sys.exit(str(refusal))


def start(ours: Settings) -> None:
    names = read_names(ours.names, host_users=ours.host_users)
    workspaces = Workspaces(ours)
    for name in [*names, TEACHER] if ours.host_users else []:
        workspaces.learner(name)
    refuse_beside_another(ours)
    workspaces.prepare([*names, TEACHER])
    if proxy.stop_if_it_differs(ours):
        refuse_a_taken_port(ours)
    (ours.runtime / "hub").write_text(str(ours.folder))
    refuse_python_that_learners_cannot_run(ours, workspaces.learner(names[0]))
    proxy.bring(Path(ours.node))
    new = {} if ours.host_users else Passwords(ours.state).prepare(TEACHER, asked_password())
    if new:
        note_passwords(ours, new)
    print(welcome(ours, names, new), flush=True)
    proxy.start(ours)
    os.chdir(ours.state)
    os.environ["PYTHONPATH"] = str(CHECKOUT)
    config = Path(__file__).with_name("jupyterhub_config.py")
    os.execv(sys.executable, [sys.executable, "-m", "jupyterhub", "-f", str(config)])


def forget(ours: Settings, names: list[str]) -> None:
    """Forgets passwords: `python -m workshop.hub forget ada`. The learners choose new ones, with
    the class password."""
    for name in names:
        known = Passwords(ours.state).forget(name)
        print(f"{name} {'chooses a new password' if known else 'had no password'}.")


def end(ours: Settings) -> None:
    """Ends the workshop (`make hub-end`): the hub if it still runs in another terminal, all
    processes of the learners, then the proxy, whose port a learner could take otherwise. Their
    workspaces stay."""
    end_hub(ours)
    known = Workspaces(ours).everybody()
    ended = sum(
        (end_servers_of if ours.host_users else end_processes_of)(learner.uid) for learner in known
    )
    for learner in known:  # The first learner of the next group gets the same number.
        shutil.rmtree(ours.runtime / str(learner.uid), ignore_errors=True)
        (ours.private / f"server-{learner.uid}.sock").unlink(missing_ok=True)
        Cgroups().remove(learner.name)
    proxy.stop(ours)
    print(f"The workshop has ended, and with it {ended} processes of {len(known)} learners.")


def end_hub(ours: Settings) -> None:
    """Ends the hub that listens on the hub's socket, if it is this user's: it may clean up for
    HUB_SECONDS, and is killed then."""
    with socket.socket(socket.AF_UNIX) as probe:
        if probe.connect_ex(str(ours.hub_socket)):
            return
        number, uid = listener_of(probe)
    if uid != os.geteuid():
        return
    for sig in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, sig)
        until = time.monotonic() + HUB_SECONDS
        while is_answered(ours.hub_socket) and time.monotonic() < until:
            time.sleep(0.1)


def listener_of(connection: socket.socket) -> tuple[int, int]:
    """Returns the numbers of the process and of the user at the other end of a Unix socket."""
    about = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    number, uid, _ = struct.unpack("3i", about)
    return number, uid


def asked_password() -> str:
    return os.environ.pop("HUB_PASSWORD", "")


def note_passwords(ours: Settings, new: dict[str, str]) -> None:
    """Writes new passwords to a file that only root can read: the screen goes on with the hub's
    log."""
    ours.noted_passwords.touch(mode=0o600)
    with ours.noted_passwords.open("a") as file:
        file.writelines(f"{who}: {word}\n" for who, word in new.items())


def refuse_beside_another(ours: Settings) -> None:
    """Raises Refusal if another hub runs on this host: both would number their learners from the
    same user id on."""
    if is_answered(ours.hub_socket):
        raise Refusal(f"The hub of {ours.folder} runs already: Ctrl-C in its terminal ends it")
    note = ours.runtime / "hub"
    other = Path(note.read_text()) if note.exists() else ours.folder
    if other != ours.folder and proxy.is_running(replace(ours, folder=other)):
        raise Refusal(
            f"The hub of {other} runs on this host, and learners of both would have the same user "
            f"ids: HUB={other} make hub-end ends it"
        )


def is_answered(path: Path) -> bool:
    """Returns True if a process listens on a socket. A process that was killed leaves its file."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def refuse_a_taken_port(ours: Settings) -> None:
    reason = why_taken(ours.address, ours.port)
    if reason:
        raise Refusal(
            f"Port {ours.port} of {ours.address} can't be opened ({reason}): PORT=... names another"
        )


def why_taken(address: str, port: int) -> str:
    """Returns why the port is taken, or "" if it is free or becomes free: a hub that has just ended
    may not have released it yet."""
    reason = ""
    for _ in range(TRIES):
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
                return ""
            except OSError as error:
                reason = error.strerror or str(error)
        time.sleep(0.5)
    return reason


def refuse_python_that_learners_cannot_run(ours: Settings, learner: Learner) -> None:
    python = ours.environment / "bin" / "python"
    try:
        done = subprocess.run(
            [python, "-c", "import jupyterhub.singleuser"],
            user=learner.uid,
            group=learner.gid,
            extra_groups=[],
            cwd="/",
            env={"PATH": "/usr/bin:/bin"},
            capture_output=True,
            check=False,
        )
        fails = bool(done.returncode)
    except OSError:
        fails = True
    if fails:
        raise Refusal(
            f"{python.resolve()} can't be run by learners, who are not root: remove "
            f"{ours.environment}, and name another Python by PYTHON=/usr/bin/python3"
        )


def welcome(ours: Settings, names: list[str], new: dict[str, str]) -> str:
    """Returns the text that `make hub` prints for a team lead before the first learner comes:
    addresses, memory, new passwords and warnings."""
    host = f"[{ours.address}]" if ":" in ours.address else ours.address
    if ours.address in EVERYWHERE:  # A browser on a laptop can't open these.
        host = socket.getfqdn()
    address = f"{'https' if ours.certificate else 'http'}://{host}:{ours.port}"
    memory = int(Path("/proc/meminfo").read_text().split()[1]) / 1e6
    kind = {"v1": "by cgroups", "v2": "by cgroups", "": "for each process: no cgroups here"}
    lines = [
        f"{len(names)} learners can log in at {address}, and {TEACHER!r} as the teacher, once "
        "JupyterHub says that it is running.",
        f"The board: {address}/services/board/",
        f"Each may take {ours.memory_gb:g} GB {kind[Cgroups().kind]}; "
        f"this host has {memory:.0f} GB, enough for about {int(memory / LEARNER_GB)} on sim.",
        *(f"Password of the {who}: {word}" for who, word in new.items()),
        reach(ours),
    ]
    if ours.noted_passwords.exists():
        lines.append(f"`sudo cat {ours.noted_passwords}` shows passwords: remove it after a look.")
    if not ours.certificate and ours.address not in LOCAL:
        lines.append("Passwords travel unencrypted: HUB_CERT and HUB_KEY turn TLS on.")
    if memory / LEARNER_GB < len(names):
        lines.append(f"{len(names)} learners at once need more memory than this host has.")
    if dropped := dropped_by_sudo():
        given = " ".join(f"{name}={shlex.quote(text)}" for name, text in dropped.items())
        lines.append(f"sudo dropped what stood before it: write `sudo make hub {given}`.")
    return "\n".join(lines)


def reach(ours: Settings) -> str:
    """Returns one sentence on the address on which the hub listens, and so who can reach it."""
    if ours.address in LOCAL:
        on_laptop = ours.port if ours.port >= 1024 else 8000  # Below, only root may listen.
        return (
            f"It listens on {ours.address} port {ours.port} alone: learners reach it at "
            f"http://127.0.0.1:{on_laptop} after `ssh -L {on_laptop}:{ours.address}:{ours.port} "
            'HOST`. "How learners reach a hub" in docs/workshop.md has other ways.'
        )
    return f"It listens on {ours.address} port {ours.port}."


if __name__ == "__main__":
    main()
