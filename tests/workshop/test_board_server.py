"""The board's pages: access, reveals, and hostile names in a browser."""

import json
import random
import re
import subprocess
import sys
import time

import pytest
from tornado.httpserver import HTTPServer
from tornado.testing import AsyncHTTPTestCase
from tornado.web import HTTPError

from debubble.commands.board.group import Group, key_of
from debubble.commands.board.server import POLICY, Board, application, for_this_host
from debubble.exercises.kata_files.progress import Progress
from debubble.exercises.kata_files.workspace import Workspace

from .test_board import KATAS, QUESTION, ROOT, event, write

pytestmark = pytest.mark.sim
TOKEN = "who teaches has this"


class TestPages(AsyncHTTPTestCase):
    @pytest.fixture(autouse=True)
    def group(self, tmp_path):
        self.folder = tmp_path / "group"
        write(self.folder, "ada", event("prediction", chapter="02", cell=QUESTION, value="8"))
        self.kept = tmp_path / "revealed.json"

    def get_app(self):
        self.board = Board(Group(self.folder, KATAS), self.kept)
        return application(self.board, for_this_host(TOKEN, lambda: {"127.0.0.1"}))

    def data(self, **headers):
        return json.loads(self.fetch("/data", headers=headers).body)

    def reveal(self, key, answer, **headers):
        body = json.dumps({"key": key, "answer": answer})
        return self.fetch("/reveal", method="POST", body=body, headers=headers).code

    def test_a_page_and_its_data_come_without_anything_from_elsewhere(self):
        page = self.fetch("/")
        assert page.code == 200 and page.headers["Content-Security-Policy"] == POLICY
        assert b"http" not in page.body.replace(b"http-equiv", b"")
        assert self.fetch("/page.js").code == 200
        assert self.data()["learners"][0]["who"] == "learner 1"

    def test_only_who_teaches_reveals_and_only_from_the_page(self):
        key = key_of("02", QUESTION)
        teacher = {"X-Teacher": TOKEN, "X-Board": "reveal"}
        assert self.reveal(key, "8", **{"X-Teacher": TOKEN}) == 403
        assert self.reveal(key, "8", **{"X-Teacher": "guess", "X-Board": "reveal"}) == 403
        assert self.data()["predictions"][0]["said"] == []
        assert self.reveal(key, "8 waits", **teacher) == 200
        told = self.data()["predictions"][0]
        assert told["said"] == [["8", 1]] and told["answer"] == "8 waits"
        assert Board(Group(self.folder, KATAS), self.kept).revealed == {key: "8 waits"}
        assert self.reveal(key, None, **teacher) == 200
        assert not self.data()["predictions"][0]["revealed"]

    def test_what_is_no_request_of_the_page_is_refused(self):
        teacher = {"X-Teacher": TOKEN, "X-Board": "reveal"}
        for body in ("", "[]", "{}", '{"key": 1, "answer": "x"}', '{"key": "k", "answer": []}'):
            answer = self.fetch("/reveal", method="POST", body=body, headers=teacher)
            assert answer.code == 400, body

    def test_another_sites_name_for_this_address_is_refused(self):
        assert self.fetch("/data", headers={"Host": "evil.example"}).code == 403

    def test_a_folder_that_went_away_is_said(self):
        self.folder.rename(self.folder.with_name("gone"))
        assert "can't be read" in self.data()["trouble"]


@pytest.mark.browser
def test_a_browser_shows_a_hostile_name_as_text_and_no_answer_by_itself(tmp_path):
    import asyncio
    import threading

    from ..browser.chromium import chromium

    hostile = "<img src=x onerror=alert(1)>"
    said = event("prediction", chapter="02", cell=QUESTION, value="8")
    write(tmp_path, "evil", event("board", name=hostile), event("begun", kata=KATAS[0].name), said)

    class AsOnAHub(for_this_host(TOKEN, set)):
        def prepare(self):
            if self.request.path == "/data" and "X-XSRFToken" not in self.request.headers:
                raise HTTPError(403)

    board = Board(Group(tmp_path, KATAS), answers={("02", QUESTION): "9 waits. They add up."})
    app = application(board, AsOnAHub)
    ready, loop, port = threading.Event(), asyncio.new_event_loop(), []

    async def serve():
        server = HTTPServer(app)
        server.listen(0, "127.0.0.1")
        port.append(next(iter(server._sockets.values())).getsockname()[1])
        ready.set()

    def forever():
        loop.run_until_complete(serve())
        loop.run_forever()

    threading.Thread(target=forever, daemon=True).start()
    assert ready.wait(30)
    with chromium() as browser:
        page = browser.new_page()
        dialogs = []
        page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
        page.goto(f"http://127.0.0.1:{port[0]}/#teacher={TOKEN}")
        page.wait_for_selector("#predictions summary")
        assert not page.get_by_text("9 waits. They add up.").is_visible()
        predicted = page.locator("#predictions progress")
        assert predicted.count() == 1 and not predicted.is_visible()
        page.get_by_text("What they predicted").click()
        assert predicted.is_visible()
        page.get_by_role("button", name="Reveal to all").click()
        page.get_by_text("Revealed: 9 waits. They add up.").wait_for()
        assert board.revealed == {key_of("02", QUESTION): "9 waits. They add up."}
        assert page.locator("#learners tbody tr td").first.inner_text() == hostile
        assert page.locator("img").count() == 0 and dialogs == []
    loop.call_soon_threadsafe(loop.stop)


@pytest.mark.browser
@pytest.mark.deep
def test_of_a_hundred_learners_the_page_is_two_seconds_behind_at_most(tmp_path, monkeypatch):
    from ..browser.board_page import seconds_behind
    from ..browser.chromium import chromium

    tried = [event("attempt", kata=kata.name, verdict="failed") for kata in KATAS]
    said = event("prediction", chapter="02", cell=QUESTION, value="8")
    for n in range(100):
        write(tmp_path, f"learner{n}", *tried, said)
    monkeypatch.setenv("DEBUBBLE_WORKSPACE", str(tmp_path / "learner7" / "my"))
    progress = Progress(Workspace(ROOT))

    def takes(name: str):
        progress.add("board", name=name)
        return progress.path

    command = [sys.executable, "-u", "-m", "debubble", "board", str(tmp_path)]
    with (
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as board,
        chromium() as browser,
    ):
        try:
            address = re.search(r"http\S+", board.stdout.readline())[0]
            page = browser.new_page()
            page.goto(address)
            page.locator("#learners tbody tr").nth(99).wait_for()
            behind = []
            for n in range(12):
                time.sleep(random.random())  # The moment between two looks is random.
                behind.append(seconds_behind(page, f"Ada {n}.", lambda n=n: takes(f"Ada {n}.")))
        finally:
            board.terminate()
    print(f"\nbehind: {max(behind):.2f} s at most, {sorted(behind)[6]:.2f} s in the middle")
    assert max(behind) <= 2.0
