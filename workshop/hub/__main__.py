"""`make hub`: looks whether everything is as it must be, says how learners come in, starts
JupyterHub."""

from __future__ import annotations

import os
import shutil
import socket
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
from .settings import CHECKOUT, FIRST_UID, Settings, settings
from .workspaces import Workspaces, end_processes_of, end_servers_of

TRIES = 6
LEARNER_GB = 1.0
"""What a learner takes at most who runs a chapter and a kata on sim, as measured."""


def main() -> None:
    try:
        if os.geteuid() != 0:
            raise Refusal(
                "The hub keeps learners apart by user ids, and needs root: say sudo before it"
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
    refuse_taken_ports(ours)
    workspaces.prepare([*names, TEACHER])
    (ours.runtime / "hub").write_text(str(ours.folder))
    refuse_python_that_learners_cannot_run(ours)
    proxy.bring(Path(ours.node))
    new = {} if ours.host_users else Passwords(ours.state).prepare(TEACHER, asked_password())
    print(welcome(ours, names, new), flush=True)
    proxy.start(ours)
    os.chdir(ours.state)
    os.environ["PYTHONPATH"] = str(CHECKOUT)
    config = Path(__file__).with_name("jupyterhub_config.py")
    os.execv(sys.executable, [sys.executable, "-m", "jupyterhub", "-f", str(config)])


def forget(ours: Settings, names: list[str]) -> None:
    """`python -m workshop.hub forget ada`: they choose a new password, with the class password."""
    for name in names:
        known = Passwords(ours.state).forget(name)
        print(f"{name} {'chooses a new password' if known else 'had no password'}.")


def end(ours: Settings) -> None:
    """`make hub-end`: the proxy and everything of the learners'. Their workspaces stay."""
    proxy.stop(ours)
    known = Workspaces(ours).everybody()
    ended = sum(
        (end_servers_of if ours.host_users else end_processes_of)(learner.uid) for learner in known
    )
    for learner in known:  # The next group's first learner gets the number of this one's.
        shutil.rmtree(ours.runtime / str(learner.uid), ignore_errors=True)
        Cgroups().remove(learner.name)
    print(f"The workshop has ended, and with it {ended} processes of {len(known)} learners.")


def asked_password() -> str:
    return os.environ.pop("HUB_PASSWORD", "")


def refuse_beside_another(ours: Settings) -> None:
    """Both would number their learners from the same user id on."""
    note = ours.runtime / "hub"
    other = Path(note.read_text()) if note.exists() else ours.folder
    if other != ours.folder and proxy.is_running(replace(ours, folder=other)):
        raise Refusal(
            f"The hub of {other} runs on this host, and learners of both would have the same user "
            f"ids: HUB={other} make hub-end ends it"
        )


def refuse_taken_ports(ours: Settings) -> None:
    needed = [("127.0.0.1", ours.hub_port), ("127.0.0.1", ours.hub_port + 2)]
    if not proxy.is_running(ours):  # It goes on while the hub is started anew.
        needed += [(ours.address, ours.port), ("127.0.0.1", ours.hub_port + 1)]
    for address, port in needed:
        reason = why_taken(address, port)
        if reason:
            raise Refusal(
                f"Port {port} of {address} can't be had ({reason}): PORT=... names another one, "
                "and the hub's own ports lie 81 above it"
            )


def why_taken(address: str, port: int) -> str:
    """ "" where it is free, or becomes so: a hub that has just ended may still let go of it."""
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


def refuse_python_that_learners_cannot_run(ours: Settings) -> None:
    python = ours.environment / "bin" / "python"
    try:
        done = subprocess.run(
            [python, "-c", "import jupyterhub.singleuser"],
            user=FIRST_UID,
            group=FIRST_UID,
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
    """What a team lead wants to know before the first learner comes."""
    host = f"[{ours.address}]" if ":" in ours.address else ours.address
    address = f"{'https' if ours.certificate else 'http'}://{host}:{ours.port}"
    memory = int(Path("/proc/meminfo").read_text().split()[1]) / 1e6
    kind = {"v1": "by cgroups", "v2": "by cgroups", "": "for each process: no cgroups here"}
    lines = [
        f"{len(names)} learners may come to {address}, and {TEACHER!r} who teaches.",
        f"The board: {address}/services/board/",
        f"Each may take {ours.memory_gb:g} GB {kind[Cgroups().kind]}; "
        f"this host has {memory:.0f} GB, enough for about {int(memory / LEARNER_GB)} on sim.",
        *(f"Password of the {who}: {word}" for who, word in new.items()),
    ]
    if new:
        lines.append("Write them down: only their hashes are kept.")
    if not ours.certificate and ours.address not in ("127.0.0.1", "::1", "localhost"):
        lines.append("Passwords travel unencrypted: HUB_CERT and HUB_KEY turn TLS on.")
    if memory / LEARNER_GB < len(names):
        lines.append(f"{len(names)} at once are more than this host's memory holds.")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
