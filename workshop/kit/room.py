"""`make check-room`: checks if a machine is ready for a workshop. Each line says ok, or what to do.

It runs what a learner will run, in the same way: a kata of chapter 00 on our solution, a kernel's
first cells, and JupyterLab's own start. A machine that says ok now needs no network in the room.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LEAST_MEMORY_GB, LEAST_DISK_GB = 4.0, 1.0
SLOW_SECONDS = 90
PORTS = 50
"""The number of ports that JupyterLab tries."""
PATIENCE = 5.0
"""The seconds in which a connection within this machine must bring an answer."""
KATA = "katas/first_steps/test_keep_it_on_the_device.py"


def main() -> int:
    failed = 0
    for name, check in CHECKS.items():
        began = time.monotonic()
        problem = check()
        seconds = time.monotonic() - began
        print(f"{'ok' if not problem else 'NO':3} {name} ({seconds:.0f} s)", flush=True)
        if problem:
            failed += 1
            print(f"    {problem}", flush=True)
    print("Ready." if not failed else f"{failed} of {len(CHECKS)} checks failed: fix them first.")
    return int(bool(failed))


def memory() -> str:
    try:
        pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return ""
    found = pages * size / 1e9
    return "" if found >= LEAST_MEMORY_GB else f"this machine has only {found:.1f} GB of memory"


def disk() -> str:
    free = shutil.disk_usage(ROOT).free / 1e9
    return "" if free >= LEAST_DISK_GB else f"{free:.1f} GB is free: make room for 1 GB"


def writable() -> str:
    folder = Path(os.environ.get("DEBUBBLE_WORKSPACE") or ROOT / "my")
    above = next(path for path in (folder, *folder.parents) if path.exists())
    if os.access(above, os.W_OK):
        return ""
    return f"{folder} can't be written to: name another folder by DEBUBBLE_WORKSPACE"


def port() -> str:
    """Tries the ports that JupyterLab would try: one must be free, and answer a connection."""
    first, reason = int(os.environ.get("PORT") or 8888), "no such port"
    for number in range(first, min(first + PORTS, 65_536)):
        reason = _why_no_answer(number)
        if not reason:
            return ""
    return (
        f"no port from {first} on answers at 127.0.0.1 ({reason}): name another by PORT=..., or "
        "allow connections to 127.0.0.1 in the firewall"
    )


def _why_no_answer(number: int) -> str:
    """Returns why a connection to this port of this machine brings nothing; "" if it works."""
    try:
        with socket.create_server(("127.0.0.1", number)) as server:
            server.settimeout(PATIENCE)
            with socket.create_connection(("127.0.0.1", number), timeout=PATIENCE) as client:
                other, _ = server.accept()
                with other:
                    other.sendall(b"debubble")
                    return "" if client.recv(8) else "the connection was closed"
    except OSError as error:
        return error.strerror or str(error)


def kata() -> str:
    return _runs([sys.executable, "-m", "pytest", KATA, "--impl", "solutions", "-q"])


def kernel() -> str:
    code = (
        "from jupyter_client.manager import start_new_kernel\n"
        "manager, client = start_new_kernel()\n"
        "code = 'import debubble; debubble.accelerator()'\n"
        "reply = client.execute_interactive(code, timeout=120)\n"
        "client.stop_channels(); manager.shutdown_kernel(now=True)\n"
        "assert reply['content']['status'] == 'ok', reply['content']\n"
    )
    return _runs([sys.executable, "-c", code])


def lab() -> str:
    with tempfile.TemporaryDirectory() as folder:
        version = [sys.executable, "-m", "jupyterlab", "--version"]
        return _runs(version, JUPYTER_CONFIG_DIR=folder)


def _runs(command: list[str], **more: str) -> str:
    around = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST")}
    around |= {"DEBUBBLE_DEVICE": "sim", **more}
    began = time.monotonic()
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=around, capture_output=True, text=True, timeout=300, check=False
        )
    except subprocess.TimeoutExpired:
        return "it did not end within five minutes: is something else using the machine?"
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines() or ["it did not say why"]
        return said[-1]
    if time.monotonic() - began > SLOW_SECONDS:
        return "it works, but takes over a minute and a half: close other programs"
    return ""


CHECKS: dict[str, Callable[[], str]] = {
    "memory": memory,
    "disk": disk,
    "a folder for what you write": writable,
    "a port of this machine's own": port,
    "a kata on sim": kata,
    "a notebook's kernel": kernel,
    "JupyterLab": lab,
}

if __name__ == "__main__":
    sys.exit(main())
