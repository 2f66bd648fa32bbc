"""Attacks by means of a session: tokens, cookies, names, links, and what a kernel listens to.

The learners and the hub are those of `test_classroom.py`; `make test-hub` runs all of them.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import requests

from .classroom import CLASS_PASSWORD, TRIES, listening, sockets_of
from .learner import Learner

pytestmark = [pytest.mark.deep, pytest.mark.sim, pytest.mark.timeout(3000)]
MINE = ("api/contents", "api/kernels", "api/terminals", "api/contents/secret.txt", "lab")
LOOKS_EVERYWHERE = """
import pathlib
seen, own = [], os.getuid()
for path in pathlib.Path("/proc").glob("[0-9]*"):
    for part in ("environ", "mem", "maps", "fd", "cwd", "root", "task/%s/environ" % path.name):
        try:
            if path.stat().st_uid == own:
                continue
            at = path / part
            found = os.listdir(at) if part == "fd" else os.readlink(at) if part in ("cwd", "root") \
                else at.open("rb").read(100) if part != "mem" else at.open("rb").fileno()
            seen += [str(at)] if found else []
        except OSError:
            pass
print(seen)
"""
SENDS = """
import zmq
sender = zmq.Context.instance().socket(zmq.PUSH)
for port in {ports}:
    sender.connect(f"tcp://127.0.0.1:{{port}}")
for n in range(200):
    sender.send_multipart([os.urandom(16), b"<IDS|MSG>", b"mallory was here"])
sender.close(linger=3000)
"""
FILLS = """
held = []
for n in range(3000):
    held.append(f"/run/debubble/gpu/{n:05}-learner1-{n}")
    open(held[-1], "w").close()
held += ["/run/debubble/gpu/00000-pipe-1", "/run/debubble/gpu/00000-link-1"]
os.mkfifo(held[-2])
os.symlink("/etc/shadow", held[-1])
"""


@pytest.fixture(scope="module")
def mallory(two):
    """Returns a kernel of the second learner, from which the tests attack."""
    _, second, *_ = two
    kernel = second.start_kernel("mallory2.ipynb")
    kernel.run("import fcntl, json, os, socket, subprocess\n" + TRIES)
    return kernel


def test_cookies_of_one_learner_open_nothing_of_another(two, classroom):
    first, second, *_ = two
    for path in MINE:
        answer = second.session.get(f"{classroom.address}/user/{first.name}/{path}", timeout=60)
        assert "one.ipynb" not in answer.text and "mine" not in answer.text, path
        assert answer.status_code in (403, 404) or "/hub/" in answer.url, (path, answer.url)


def test_cookies_under_anothers_name_open_nothing(two, classroom):
    """A cookie's name has the learner's name in some JupyterHub services: a renamed cookie must
    not pass as another learner's."""
    first, second, *_ = two
    renamed = {
        name.replace(second.name, first.name): text
        for name, text in second.session.cookies.get_dict().items()
    }
    for path in MINE:
        answer = requests.get(
            f"{classroom.address}/user/{first.name}/{path}",
            cookies=renamed,
            timeout=60,
            allow_redirects=False,
        )
        assert answer.status_code >= 300, path
    who = requests.get(f"{classroom.address}/hub/api/user", cookies=renamed, timeout=60)
    assert f'"name": "{first.name}"' not in who.text


def test_the_token_in_a_servers_environment_opens_nothing_of_another(two, classroom, mallory):
    first, second, *_ = two
    token = mallory.run(
        "text = open(f'/proc/{os.getppid()}/environ').read()\n"
        "found = dict(line.partition('=')[::2] for line in text.split(chr(0)))\n"
        "print(found['JUPYTERHUB_API_TOKEN'])"
    ).strip()
    headers = {"Authorization": f"token {token}"}
    ask = lambda path: requests.get(
        f"{classroom.address}{path}", headers=headers, timeout=60, allow_redirects=False
    )
    assert ask("/hub/api/user").json()["name"] == second.name
    for path in (f"/hub/api/users/{first.name}", "/hub/api/users", "/hub/api/proxy"):
        answer = ask(path)
        assert answer.status_code in (403, 404) or first.name not in answer.text, path
    for path in MINE:
        assert ask(f"/user/{first.name}/{path}").status_code >= 300, path


def test_of_other_peoples_processes_proc_shows_no_secret(two, mallory):
    assert mallory.run(LOOKS_EVERYWHERE).strip() == "[]"


@pytest.mark.parametrize(
    "path",
    [
        "../../state/passwords.json",
        "%2e%2e/%2e%2e/state/passwords.json",
        "page.js/../server.py",
        "..%2fserver.py",
        "data/../../hub/admin",
        "/etc/passwd",
        "page.js%00.html",
    ],
)
def test_no_path_leads_from_the_board_to_a_file(learners, classroom, path):
    asked = requests.Request("GET", f"{classroom.address}/services/board/")
    prepared = learners[1].session.prepare_request(asked)
    prepared.url = f"{classroom.address}/services/board/{path}"
    answer = learners[1].session.send(prepared, timeout=60)
    for word in ("root:", "scrypt", '"shared"', "RequestHandler"):
        assert word not in answer.text, (path, word)
    assert answer.status_code in (400, 403, 404) or "/hub/" in answer.url, path


def test_a_full_folder_of_the_lease_leaves_the_board_as_it_is(learners, classroom, mallory):
    before = mallory.run("print(len(os.listdir('/run/debubble/gpu')))")
    mallory.run(FILLS)
    try:
        began = time.monotonic()
        answer = learners[0].session.get(f"{classroom.address}/services/board/data", timeout=60)
        assert answer.status_code == 200 and "root:" not in answer.text
        assert answer.json()["gpu"] == [], "no process holds one of these files"
        assert time.monotonic() - began < 10
        ticket = Path("/run/debubble/gpu/00001-another-1")
        ticket.touch()
        for way in ("os.remove({0!r})", "os.rename({0!r}, '/run/debubble/gpu/x')"):
            said = mallory.run(f"print(tries(lambda: {way.format(str(ticket))}))")
            assert said == "refused\n", "another learner's place in the line is theirs"
        ticket.unlink()
    finally:
        mallory.run("for path in held: os.remove(path)")
    assert mallory.run("print(len(os.listdir('/run/debubble/gpu')))") == before


@pytest.mark.parametrize("name", ["LEARNER1", " learner1 ", "learner1\u200b", "léarner1"])
def test_another_way_of_writing_a_name_is_no_second_account(two, classroom, name):
    who = Learner(classroom.address, name)
    assert who.log_in(CLASS_PASSWORD, "mallory's own word").status_code in (400, 403, 429)


@pytest.mark.parametrize("name", ["teacher", "Teacher", "nobody-on-the-list", "root", ""])
def test_the_class_password_makes_nobody_a_teacher_or_a_guest(two, classroom, name):
    who = Learner(classroom.address, name)
    assert who.log_in(CLASS_PASSWORD, "mallory's own word").status_code in (400, 403, 429)


def test_output_that_another_learner_sends_to_a_kernel_is_dropped(two, mallory):
    """A kernel has one port on this host, for the output of forked processes. It takes only output
    that begins with a secret of the kernel."""
    _, _, one, *_ = two
    kernel = int(one.run("print(os.getpid())"))
    ports = [port for port, socket in listening() if socket in sockets_of(kernel)]
    mallory.run(SENDS.format(ports=ports))
    heard = one.run("import time\nfor n in range(10): print(n); time.sleep(0.1)")
    assert heard.split() == [str(n) for n in range(10)]
    assert one.run("print('fine')") == "fine\n"


def test_links_in_a_home_lead_the_hub_to_nobody_elses(two, classroom, mallory):
    """The hub makes a learner's missing folders as that learner: links in the home that lead to
    another learner's or root's folders change nothing there."""
    first, second, *_ = two
    theirs = classroom.folder / "workspaces" / first.name
    before = sorted(path.name for path in theirs.iterdir())
    mallory.run(
        "home = os.path.expanduser('~')\n"
        "os.rename(f'{home}/debubble', f'{home}/kept')\n"
        f"os.symlink('{theirs}', f'{{home}}/.debubble-half')\n"
        f"os.symlink('{theirs}/debubble', f'{{home}}/debubble')\n"
    )
    until = time.monotonic() + 120
    while second.ask("GET", f"/hub/api/users/{second.name}").json()["servers"]:
        second.ask("DELETE", f"/hub/api/users/{second.name}/server")
        assert time.monotonic() < until
        time.sleep(1)
    second.start_server()
    assert sorted(path.name for path in theirs.iterdir()) == before
    home = classroom.folder / "workspaces" / second.name
    assert home.joinpath("debubble", "Makefile").stat().st_uid == os.stat(home).st_uid
    assert not home.joinpath("debubble").is_symlink(), "a clone of their own took its place"
