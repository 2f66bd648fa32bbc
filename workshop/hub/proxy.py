"""JupyterHub's proxy, a process of its own: the hub can be started anew while learners go on
working."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import time
from pathlib import Path

from .refusal import Refusal
from .settings import Settings

PROXY = "configurable-http-proxy@5.3.0"
OLDEST_NODE = 20


def bring(folder: Path) -> None:
    """JupyterHub's own proxy, from npm, once."""
    if (folder / "node_modules/.bin/configurable-http-proxy").exists():
        return
    node, npm = shutil.which("node"), shutil.which("npm")
    said = subprocess.run([node, "--version"], capture_output=True, text=True) if node else None
    version = int(said.stdout.lstrip("v").partition(".")[0] or 0) if said else 0
    if not npm or version < OLDEST_NODE:
        found = f"here is {version}" if version else "here is none"
        raise Refusal(
            f"JupyterHub's proxy needs Node.js {OLDEST_NODE} or newer with npm, and {found}: "
            "nodejs.org says how to have it"
        )
    print(f"Bringing {PROXY} from npm, 9 MB.", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        npm,
        "install",
        "--no-fund",
        "--no-audit",
        "--loglevel=error",
        "--prefix",
        str(folder),
    ]
    if subprocess.run([*command, PROXY], check=False).returncode:
        raise Refusal("JupyterHub's proxy can't be had: npm says why above")


def start(ours: Settings) -> None:
    """Does nothing where it runs already."""
    if is_running(ours):
        return
    token = secrets.token_hex(32)
    file = os.open(ours.proxy_token, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(file, "w") as written:
        written.write(token)
    command = [f"{ours.node}/node_modules/.bin/configurable-http-proxy"]
    command += ["--ip", ours.address, "--port", str(ours.port), "--api-ip", "127.0.0.1"]
    command += ["--api-port", str(ours.hub_port + 1)]
    command += ["--error-target", f"http://127.0.0.1:{ours.hub_port}/hub/error"]
    if ours.certificate:
        command += ["--ssl-cert", ours.certificate, "--ssl-key", ours.key]
    with (ours.state / "proxy.log").open("ab") as log:
        process = subprocess.Popen(
            command,
            cwd=ours.state,
            env={"CONFIGPROXY_AUTH_TOKEN": token, "PATH": os.environ["PATH"]},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    _note(ours).write_text(str(process.pid))


def stop(ours: Settings) -> None:
    with contextlib.suppress(OSError, ValueError):
        number = int(_note(ours).read_text())
        for _ in range(50):
            if not is_running(ours):
                return
            os.kill(number, signal.SIGTERM)
            time.sleep(0.1)


def is_running(ours: Settings) -> bool:
    try:
        number = int(_note(ours).read_text())
        return b"configurable-http-proxy" in Path(f"/proc/{number}/cmdline").read_bytes()
    except (OSError, ValueError):
        return False


def _note(ours: Settings) -> Path:
    return ours.state / "proxy.pid"
