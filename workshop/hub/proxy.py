"""JupyterHub's proxy in a process of its own: the hub can be restarted while learners keep
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
from .settings import Settings, socket_url

OLDEST_NODE = 20
LISTS = Path(__file__).with_name("node")
"""The folder of package.json and package-lock.json: the proxy and its dependencies, with their
hashes."""
HEADERS = Path(__file__).with_name("headers.mjs")
BINARY = "node_modules/.bin/configurable-http-proxy"


def bring(folder: Path) -> None:
    """Installs JupyterHub's own proxy from npm, once for each lock file. No package runs a script.
    Raises Refusal, with one sentence, if that fails."""
    lists = [LISTS / name for name in ("package.json", "package-lock.json")]
    if (folder / BINARY).exists() and all(
        (folder / path.name).exists() and (folder / path.name).read_bytes() == path.read_bytes()
        for path in lists
    ):
        return
    node, npm = shutil.which("node"), shutil.which("npm")
    said = subprocess.run([node, "--version"], capture_output=True, text=True) if node else None
    version = int(said.stdout.lstrip("v").partition(".")[0] or 0) if said else 0
    if not npm or version < OLDEST_NODE:
        found = f"here is {version}" if version else "here is none"
        raise Refusal(
            f"JupyterHub's proxy needs Node.js {OLDEST_NODE} or newer with npm, and {found}: "
            "nodejs.org says how to install it"
        )
    print("Downloading JupyterHub's proxy from npm, 9 MB.", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    for path in lists:
        shutil.copyfile(path, folder / path.name)
    command = [npm, "ci", "--ignore-scripts", "--no-fund", "--no-audit", "--loglevel=error"]
    if subprocess.run(command, cwd=folder, check=False).returncode:
        raise Refusal("JupyterHub's proxy can't be installed: npm says why above")


def start(ours: Settings) -> None:
    """Starts the proxy in a process of its own. Keeps one that runs with these settings, and ends
    one with other settings first."""
    if not stop_if_it_differs(ours):
        return
    token = secrets.token_hex(32)
    file = os.open(ours.proxy_token, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(file, "w") as written:
        written.write(token)
    ours.proxy_socket.unlink(missing_ok=True)  # A proxy that was killed leaves its socket.
    with (ours.state / "proxy.log").open("ab") as log:
        process = subprocess.Popen(
            _command(ours),
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


def stop_if_it_differs(ours: Settings) -> bool:
    """Ends a proxy that was started with other settings, and returns True if none runs now."""
    if _running(ours) != _command(ours):
        stop(ours)
    return not is_running(ours)


def is_running(ours: Settings) -> bool:
    return any("configurable-http-proxy" in word for word in _running(ours))


def _running(ours: Settings) -> list[str]:
    """Returns the command line of the proxy whose process number was noted, word by word, or [] if
    root runs no process of this number: it may now be a learner's process."""
    try:
        process = Path(f"/proc/{int(_note(ours).read_text())}")
        if process.stat().st_uid != os.geteuid():
            return []
        return (process / "cmdline").read_text().split("\0")[:-1]
    except (OSError, ValueError):
        return []


def _command(ours: Settings) -> list[str]:
    trusted = f"?trusted={','.join(ours.trusted_proxies)}"
    command = [shutil.which("node") or "node", "--import", HEADERS.as_uri() + trusted]
    command += [f"{ours.node}/{BINARY}", "--ip", ours.address, "--port", str(ours.port)]
    command += ["--api-socket", str(ours.proxy_socket)]
    command += ["--error-target", f"{socket_url(ours.hub_socket)}/hub/error"]
    if ours.certificate:
        command += ["--ssl-cert", ours.certificate, "--ssl-key", ours.key]
    return command


def _note(ours: Settings) -> Path:
    return ours.state / "proxy.pid"
