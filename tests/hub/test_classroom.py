"""Twelve learners on a real hub: all work at once, and none can read or end another's work.

`make test-hub` runs this by itself; it takes minutes, 2.5 GB of disk and up to 1 GB of memory each.
"""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

from workshop.hub.__main__ import LEARNER_GB
from workshop.hub.limits import Cgroups

from ..browser.board_page import seconds_behind
from ..browser.chromium import chromium
from .classroom import LEARNERS, TRIES, listening, sockets_of
from .learner import Learner

pytestmark = [pytest.mark.deep, pytest.mark.sim, pytest.mark.timeout(3000)]

LEARNER_MB = 85
"""The most megabytes of disk for a learner who has run a chapter and a kata: README says 70."""
CHAPTER = "my/chapters/00_reading_a_timeline.ipynb"
KATA = "keep_it_on_the_device"
SOLVE = f"""
import inspect, os, pathlib
from solutions.first_steps import habits
home = pathlib.Path(os.environ["HOME"], "debubble")
answer = home / "my/katas/first_steps/{KATA}.py"
assert answer.exists()
_ = answer.write_text("import torch\\n\\n\\n" + inspect.getsource(habits.mean_loss))
"""


def test_all_run_a_chapter_and_solve_a_kata_at_once(classroom, learners):
    def works(learner: Learner) -> tuple[str, str]:
        kernel = learner.start_kernel(CHAPTER)
        for cell in learner.cells_of(CHAPTER):
            kernel.run(cell)
        kernel.run(f"!debubble next {KATA}")
        before = kernel.run(f"!debubble run {KATA}")
        kernel.run(SOLVE)
        return before, kernel.run(f"!debubble run {KATA}")

    with ThreadPoolExecutor(LEARNERS) as all_at_once:
        verdicts = list(all_at_once.map(works, learners))
    for before, after in verdicts:
        assert "failed" in before and "Solved" not in before, before
        assert "Solved: " in after and "failed" not in after, after
        assert "took longer than" not in before + after, "a neighbour's load fails no test"
    peaks = [Cgroups().memory_of(learner.name) for learner in learners]
    if all(peak is not None for peak in peaks):
        print(f"\nmemory: {min(peaks) / 1e9:.2f} to {max(peaks) / 1e9:.2f} GB at most")
        assert max(peaks) <= 1e9 * LEARNER_GB, "the README and the hub's start say less"
    homes = [Path(classroom.folder, "workspaces", learner.name) for learner in learners]
    sizes = [sum(path.lstat().st_blocks * 512 for path in home.rglob("*")) for home in homes]
    print(f"disk: {min(sizes) / 1e6:.0f} to {max(sizes) / 1e6:.0f} MB")
    assert max(sizes) <= 1e6 * LEARNER_MB, "the README says less"


@pytest.mark.parametrize(
    "what",
    [
        "os.listdir('{folder}/workspaces/learner1')",
        "os.listdir('{folder}/workspaces')",
        "open('{folder}/workspaces/learner1/secret.txt').read()",
        "open('{folder}/state/hub.sqlite', 'rb').read()",
        "open('{folder}/state/cookie_secret').read()",
        "open('{folder}/state/proxy_token').read()",
        "open('{folder}/state/passwords.json').read()",
        "open('{folder}/environment/x', 'w')",
        "open('{folder}/scripts/x', 'w')",
        "os.listdir('/run/debubble/{uid}')",
        "open('/proc/{server}/environ').read()",
        "os.readlink('/proc/{server}/fd/0')",
        "os.kill({server}, signal.SIGTERM)",
        "os.kill({sleeper}, signal.SIGKILL)",
        "os.setuid({uid})",
        "os.setuid(0)",
    ],
)
def test_nobody_reads_or_ends_anothers(two, classroom, what):
    _, _, _, other, server, sleeper = two
    other.run(TRIES)
    uid = os.stat(f"/proc/{server}").st_uid
    asked = what.format(folder=classroom.folder, server=server, sleeper=sleeper, uid=uid)
    assert other.run(f"print(tries(lambda: {asked}))").strip() == "refused"


def test_what_the_first_learner_has_is_still_there(two):
    _, _, one, _, _, _ = two
    assert one.run("print(sleeper.poll(), open(os.path.expanduser('~/secret.txt')).read())") == (
        "None mine\n"
    )


def test_a_token_opens_ones_own_server_only(two, classroom):
    first, second, *_ = two
    for path in ("api/contents", "api/kernels", "api/terminals", "lab"):
        answer = second.ask("GET", f"/user/{first.name}/{path}")
        assert answer.status_code in (302, 403, 404), (path, answer.status_code)
        assert "one.ipynb" not in answer.text
    assert second.ask("GET", f"/hub/api/users/{first.name}").status_code in (403, 404)
    assert second.ask("DELETE", f"/hub/api/users/{first.name}/server").status_code in (403, 404)


def test_no_part_of_the_hub_listens_on_a_port(two, classroom):
    """Only the proxy listens on a TCP port; the hub, its services, the learners' servers and the
    kernels' channels use sockets in folders. Any process of the host could use a port, or take it
    first. The one port of a kernel is for the output of forked processes: see
    `test_output_that_another_learner_sends_to_a_kernel_is_dropped`."""
    _, _, one, _, server, _ = two
    ports = {port for port, _ in listening()}
    assert classroom.port in ports
    assert not ports & {classroom.port + 81, classroom.port + 82, classroom.port + 83}
    assert not {port for port, socket in listening() if socket in sockets_of(server)}
    kernel = int(one.run("print(os.getpid())"))
    assert len([port for port, socket in listening() if socket in sockets_of(kernel)]) <= 1
    connection = one.run(
        "import ipykernel.connect, json\n"
        "print(json.load(open(ipykernel.connect.get_connection_file()))['transport'])"
    )
    assert connection == "ipc\n", "anybody on this host could speak to the kernel's ports"


def test_the_hub_dies_and_nobodys_work_does(two, classroom):
    first, _, one, _, server, _ = two
    one.run("kept = 42")
    classroom.kill_hub()
    assert one.run("print(kept)") == "42\n", "the proxy and the server go on without the hub"
    classroom.start()
    assert one.run("print(kept)") == "42\n"
    assert int(one.run("print(os.getppid())")) == server
    known = first.ask("GET", f"/hub/api/users/{first.name}").json()["servers"][""]
    assert known["ready"]
    progress = Path(classroom.folder, "workspaces", first.name, "debubble/my/progress.jsonl")
    assert '"verdict": "passed"' in progress.read_text()


def test_one_who_forks_without_end_or_fills_the_memory_harms_nobody_else(two, classroom):
    _, second, one, _, _, _ = two
    greedy = second.start_kernel("greedy.ipynb")
    forks = (
        "import subprocess\nheld = []\n"
        "try:\n"
        "    while len(held) < 5000:\n"
        "        held.append(subprocess.Popen(['sleep', '300']))\n"
        "except OSError as error:\n"
        "    print(error.strerror)\n"
    )
    assert "temporarily unavailable" in greedy.run(forks)
    echo = "subprocess.run(['echo', 'fine'], capture_output=True).returncode"
    assert one.run(f"print({echo})") == "0\n"
    greedy.run("for process in held: process.kill()\nfor process in held: _ = process.wait()")
    fills = "held = [bytearray(b'x' * 2**28) for _ in range(64)]"
    try:
        said = greedy.run(f"try:\n    {fills}\nexcept MemoryError:\n    print('no more')")
    except ConnectionError:
        said = "its kernel was ended"
    assert said in ("no more\n", "its kernel was ended")
    assert one.run("print(kept)") == "42\n"


def test_a_workspace_that_was_deleted_is_made_anew(classroom, learners):
    last = learners[-1]
    kernel = last.start_kernel("last.ipynb")
    kernel.run("import shutil, os\nshutil.rmtree(os.path.expanduser('~/debubble/my/chapters'))")
    kernel.run("os.remove(os.path.expanduser('~/debubble/Makefile'))")
    assert last.ask("DELETE", f"/hub/api/users/{last.name}/server").status_code in (202, 204)
    again = classroom.come_in(last.name)
    again.start_server()
    assert len(again.cells_of(CHAPTER)) > 10
    kept = [p.name for p in Path(classroom.folder, "workspaces", last.name).glob("debubble-*")]
    assert len(kept) == 1, "what was left of the old one is kept beside it"


def test_the_board_shows_all_without_names(classroom, learners):
    page = learners[0].session.get(f"{classroom.address}/services/board/", timeout=60)
    assert "The board" in page.text
    data = learners[0].session.get(f"{classroom.address}/services/board/data", timeout=60).json()
    assert len(data["learners"]) == LEARNERS
    assert not any(one["is_named"] for one in data["learners"])
    assert sum("solved" in one["states"].values() for one in data["learners"]) >= LEARNERS - 1
    refused = learners[0].session.post(
        f"{classroom.address}/services/board/reveal",
        headers={"X-Board": "reveal"},
        json={"key": "k", "answer": "a"},
        timeout=60,
    )
    assert refused.status_code == 403
    password = re.findall(r"Password of the teacher: (\S+)", classroom.log.read_text())[-1]
    teacher = Learner(classroom.address, "teacher")
    assert teacher.log_in(password).status_code == 302
    board = f"{classroom.address}/services/board"
    assert teacher.session.get(f"{board}/data", timeout=60).json()["teaches"]
    told = teacher.session.post(
        f"{board}/reveal",
        headers={
            "X-Board": "reveal",
            "X-XSRFToken": teacher.session.cookies.get("_xsrf", path="/services/board/"),
        },
        json={"key": "k", "answer": "a"},
        timeout=60,
    )
    assert told.status_code == 200
    teacher.start_server()
    teacher.start_kernel("teaches.ipynb").run("!debubble progress --show-as Grace")
    assert Path(classroom.folder, "workspaces/teacher/debubble/my/progress.jsonl").exists()
    data = teacher.session.get(f"{board}/data", timeout=60).json()
    assert len(data["learners"]) == LEARNERS, "the teacher is no learner"


def test_the_board_in_a_browser(classroom, learners):
    """The board can be opened in a real browser, where a request has more headers that the hub
    checks, and shows a learner's changed name within 2 s."""
    with chromium() as browser:
        page = browser.new_page()
        page.goto(f"{classroom.address}/services/board/")
        page.fill("[name=username]", learners[1].name)
        page.fill("[name=password]", f"a word of {learners[1].name}")
        page.click("form button")
        page.wait_for_selector("#learners tbody tr")
        assert page.locator("#learners tbody tr").count() == LEARNERS
        kernel = learners[2].start_kernel("shows.ipynb")
        file = Path(classroom.folder, "workspaces", learners[2].name, "debubble/my/progress.jsonl")

        def takes(name: str) -> Path:
            kernel.run(f"!debubble progress --show-as {name}")
            return file

        behind = [seconds_behind(page, f"Ada{n}!", lambda n=n: takes(f"Ada{n}!")) for n in range(5)]
    print(f"\nboard: {max(behind):.2f} s behind at most")
    assert max(behind) <= 2.0


def test_a_password_is_guessed_more_and_more_slowly(classroom):
    guessed, other = classroom.names[:2]
    answers = [
        Learner(classroom.address, guessed).log_in(f"guess {n}").status_code for n in range(8)
    ]
    assert answers[:4] == [403] * 4
    assert 429 in answers[4:]
    said = Learner(classroom.address, guessed).log_in("another guess")
    assert said.status_code == 429
    assert "Too many wrong passwords: wait" in said.text
    others = Learner(classroom.address, other).log_in(f"a word of {other}")
    assert others.status_code == 302, "somebody else is not held up"
    assert requests.get(f"{classroom.address}/hub/login", timeout=60).ok
