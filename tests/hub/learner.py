"""A learner who uses the hub as a browser does: logs in, starts a server, works in it."""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from dataclasses import dataclass, field

import requests
import websocket

PATIENCE = 600


@dataclass
class Learner:
    hub: str
    """The hub's address, such as http://127.0.0.1:8000."""
    name: str
    session: requests.Session = field(default_factory=requests.Session)
    headers: dict = field(default_factory=dict)

    def log_in(self, password: str, own: str = "") -> requests.Response:
        form = self.session.get(f"{self.hub}/hub/login", timeout=PATIENCE)
        form.raise_for_status()
        fields = {
            "username": self.name,
            "password": password,
            "own": own,
            "_xsrf": self.session.cookies.get("_xsrf", path="/hub/"),
        }
        return self.session.post(
            f"{self.hub}/hub/login", data=fields, timeout=PATIENCE, allow_redirects=False
        )

    def start_server(self) -> None:
        """Starts the learner's server unless it runs, and returns once it answers. Raises
        AssertionError if the hub refuses, if the server ends, or if it is not ready in time."""
        xsrf = {"_xsrf": self.session.cookies.get("_xsrf", path="/hub/")}
        made = self.session.post(
            f"{self.hub}/hub/api/users/{self.name}/tokens",
            params=xsrf,
            json={"note": "a test"},
            timeout=PATIENCE,
        )
        assert made.status_code == 201, made.text
        self.headers = {"Authorization": f"token {made.json()['token']}"}
        asked = self.ask("POST", f"/hub/api/users/{self.name}/server")
        runs = "is already running" in asked.text
        assert runs or asked.status_code in (201, 202), asked.text
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            server = self.ask("GET", f"/hub/api/users/{self.name}").json()["servers"].get("", {})
            if server.get("ready"):
                return
            assert server or asked.status_code == 202, "the server did not start"
            time.sleep(1)
        raise AssertionError("the server was not ready in time")

    def ask(self, method: str, path: str, **about) -> requests.Response:
        """Sends an HTTP request with this learner's token, follows no redirect, and returns the
        response."""
        about.setdefault("timeout", PATIENCE)
        return requests.request(
            method, f"{self.hub}{path}", headers=self.headers, allow_redirects=False, **about
        )

    def start_kernel(self, path: str = "chapters/00_reading_a_timeline.ipynb") -> Kernel:
        """Starts a kernel for the notebook at `path` on the learner's server, as JupyterLab does,
        and returns it."""
        asked = {"path": path, "type": "notebook", "name": path, "kernel": {"name": "python3"}}
        made = self.ask("POST", f"/user/{self.name}/api/sessions", json=asked)
        assert made.status_code == 201, made.text
        return Kernel(self, made.json()["kernel"]["id"])

    def cells_of(self, path: str) -> list[str]:
        found = self.ask("GET", f"/user/{self.name}/api/contents/{path}")
        assert found.status_code == 200, found.text
        cells = found.json()["content"]["cells"]
        return [cell["source"] for cell in cells if cell["cell_type"] == "code"]


@dataclass
class Kernel:
    learner: Learner
    id: str

    def connected(self) -> websocket.WebSocket:
        """Returns a new websocket to this kernel. Each cell has its own one, since a socket that is
        not read answers no pings."""
        base = self.learner.hub.replace("http", "ws", 1)
        address = f"{base}/user/{self.learner.name}/api/kernels/{self.id}/channels"
        header = [f"{name}: {text}" for name, text in self.learner.headers.items()]
        return websocket.create_connection(address, header=header, timeout=PATIENCE)

    def run(self, code: str) -> str:
        """Runs the code as a cell, and returns its output. Raises AssertionError with the cell's
        traceback if it fails, and ConnectionError if the kernel ends meanwhile."""
        message = uuid.uuid4().hex
        header = {
            "msg_id": message,
            "msg_type": "execute_request",
            "username": "",
            "session": self.id,
            "version": "5.3",
        }
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        asked = {
            "header": header,
            "parent_header": {},
            "metadata": {},
            "content": content,
            "channel": "shell",
        }
        with contextlib.closing(self.connected()) as socket:
            socket.send(json.dumps(asked))
            return self._printed(socket, message)

    def _printed(self, socket: websocket.WebSocket, message: str) -> str:
        printed, replied, idle = [], False, False
        while not (replied and idle):
            frame = socket.recv()
            if isinstance(frame, bytes):
                continue  # A picture of a widget.
            heard = json.loads(frame)
            state = heard["content"].get("execution_state")
            if heard["msg_type"] == "status" and state in ("restarting", "dead"):
                raise ConnectionError("the kernel was ended")
            if heard.get("parent_header", {}).get("msg_id") != message:
                continue
            kind, content = heard["msg_type"], heard["content"]
            if kind == "stream":
                printed.append(content["text"])
            elif kind == "error":
                raise AssertionError("\n".join(content["traceback"]))
            replied |= kind == "execute_reply"
            idle |= kind == "status" and content["execution_state"] == "idle"
        return "".join(printed)
