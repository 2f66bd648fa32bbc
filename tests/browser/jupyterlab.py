"""Starts a JupyterLab for one test, and drives its open notebook."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from playwright.sync_api import Locator, Page

ROOT = Path(__file__).parents[2]
START_SECONDS = 60
NO_NEWS = {"fetchNews": "false", "checkForUpdates": False}


@contextmanager
def jupyterlab(folder: Path, home: Path) -> Iterator[Server]:
    """Serves `folder` on 127.0.0.1 with settings, kernels and logs below `home`; then stops."""
    server = Server(port=free_port(), token=secrets.token_hex(16))
    log = home / "jupyterlab.log"
    settings = home / "settings/@jupyterlab/apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text(json.dumps(NO_NEWS))
    with log.open("w") as output:
        process = subprocess.Popen(
            command(server, folder),
            env=environment(home),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            wait_until_it_answers(server, process, log)
            yield server
        finally:
            process.terminate()
            process.wait(timeout=30)


class Server:
    def __init__(self, port: int, token: str):
        self.port, self.token = port, token

    def url(self, notebook: str) -> str:
        return f"http://127.0.0.1:{self.port}/lab/tree/{notebook}?token={self.token}"

    @property
    def status_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/api/status?token={self.token}"


def command(server: Server, folder: Path) -> list[str]:
    options = {
        "ServerApp.ip": "127.0.0.1",
        "ServerApp.port": server.port,
        "ServerApp.port_retries": 0,
        "ServerApp.root_dir": folder,
        "IdentityProvider.token": server.token,
        "LabApp.expose_app_in_browser": True,
    }
    arguments = [f"--{name}={value}" for name, value in options.items()]
    as_root = ["--allow-root"] if os.geteuid() == 0 else []
    return [sys.executable, "-m", "jupyterlab", "--no-browser", *arguments, *as_root]


def environment(home: Path) -> dict[str, str]:
    """Returns environment variables for a JupyterLab that keeps its settings below `home`, ignores
    the user's Jupyter set-up, runs on sim, and can import the checkout."""
    path = filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])
    return os.environ | {
        "DEBUBBLE_DEVICE": "sim",
        "PYTHONPATH": os.pathsep.join(path),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "IPYTHONDIR": str(home / "ipython"),
    }


def wait_until_it_answers(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            with urlopen(server.status_url, timeout=5):
                return
        except (URLError, OSError):
            time.sleep(0.2)
    raise RuntimeError(f"JupyterLab did not start on port {server.port}:\n{log.read_text()}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


NOT_RUN = "!(cell.model.executionCount && cell.model.executionState === 'idle')"


class OpenNotebook:
    """The open notebook, driven by the menus and read through JupyterLab's own model."""

    FRONT = "window.jupyterapp?.shell?.currentWidget"

    def __init__(self, page: Page):
        self.page = page

    def wait_for_kernel(self) -> None:
        self.page.wait_for_function(
            f"{self.FRONT}?.sessionContext?.session?.kernel?.status === 'idle'", timeout=60_000
        )

    def run_all_cells(self, seconds: float) -> None:
        """Runs all cells. Stored outputs are cleared first, so a cell with a count has really run.
        `seconds` is the limit for one cell; the time of a chapter depends on the machine."""
        self.choose("Edit", "Clear Outputs of All Cells")
        self.choose("Run", "Run All Cells")
        left = (
            f"{self.FRONT}.content.widgets.filter(cell => cell.model.type === 'code' && {NOT_RUN})"
        )
        number = None
        while number != 0:
            self.page.wait_for_function(
                f"known => {left}.length !== known", arg=number, timeout=seconds * 1000
            )
            number = self.page.evaluate(f"{left}.length")

    def choose(self, menu: str, item: str) -> None:
        self.page.get_by_role("menuitem", name=menu, exact=True).click()
        self.page.get_by_text(item, exact=True).click()

    def unfold(self) -> None:
        """Expands all collapsed headings, so that each cell can come into view."""
        self.page.evaluate("window.jupyterapp.commands.execute('notebook:expand-all-headings')")

    def errors(self) -> list[str]:
        """Returns the errors of cells, one text each."""
        return self.page.evaluate(
            f"{self.FRONT}.content.widgets.filter(cell => cell.model.type === 'code')"
            ".flatMap(cell => cell.model.sharedModel.outputs)"
            ".filter(output => output.output_type === 'error')"
            ".map(output => `${output.ename}: ${output.evalue}`)"
        )

    def cell_with(self, *selectors: str) -> Locator:
        """Returns the first cell that shows all of `selectors`, scrolled into view.

        JupyterLab keeps cells out of the page until they come into view, so each is visited.
        """
        number_of_cells = self.page.evaluate(f"{self.FRONT}.content.widgets.length")
        for index in range(number_of_cells):
            self.page.evaluate(
                f"index => {self.FRONT}.content.scrollToItem(index, 'center')", index
            )
            cell = self.page.locator(f".jp-Cell[data-windowed-list-index='{index}']")
            cell.wait_for(state="attached", timeout=10_000)
            if all(cell.locator(selector).count() for selector in selectors):
                return cell
        raise AssertionError(f"no cell shows all of {', '.join(selectors)}")
