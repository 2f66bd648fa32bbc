"""Attacks of a learner on the hub and on other learners: each is refused, or does no harm.

The learners and the hub are those of `test_classroom.py`; `make test-hub` runs both.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests
import websocket

from .classroom import TRIES, listening
from .learner import Learner

pytestmark = [pytest.mark.deep, pytest.mark.sim, pytest.mark.timeout(3000)]
RUN = Path("/run/debubble")

FALSE_HUB = """
import http.server, threading

class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        victim = {{"name": "{victim}", "kind": "user", "admin": True, "groups": [], "roles": [],
                  "scopes": ["access:servers", "access:servers!user={victim}", "self"]}}
        said = json.dumps(victim).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)
    do_POST = do_GET

def serves(address):
    server = http.server.ThreadingHTTPServer(address, Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server

def serves_socket(path):
    socket.socket(socket.AF_UNIX).bind(path)

false = []
for port in {ports}:
    try:
        false.append(serves(("127.0.0.1", port)))
    except OSError:
        pass
print(len(false))
"""

PAST_THE_PROXY = """
import http.client, re, urllib.parse

class ByPath(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect("/run/debubble/hub.sock")

def guesses(name, word, n):
    hub = ByPath("hub")
    about = {"X-Forwarded-For": f"203.0.113.{n}", "X-Real-IP": f"203.0.113.{n}"}
    hub.request("GET", "/hub/login", headers=about)
    answer = hub.getresponse()
    answer.read()
    said = [text for key, text in answer.getheaders() if key.lower() == "set-cookie"]
    cookies = "; ".join(text.partition(";")[0] for text in said)
    xsrf = re.search("_xsrf=([^;]*)", cookies)[1]
    form = urllib.parse.urlencode({"username": name, "password": word, "_xsrf": xsrf})
    about |= {"Cookie": cookies, "Content-Type": "application/x-www-form-urlencoded"}
    hub.request("POST", "/hub/login", form, about)
    return hub.getresponse().status
"""

FIGHTS = """
import os, signal, socket, time
for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(one, signal.SIG_IGN)
while True:
    if os.fork() == 0:
        os.setsid()
    else:
        time.sleep(0.5)
    try:
        held = socket.create_server(("127.0.0.1", {port}))
    except OSError:
        pass
    time.sleep(0.2)
"""


@pytest.fixture(scope="session")
def mallory(two):
    """Returns a kernel of the second learner, with imports and helpers, from which the tests
    attack."""
    _, second, *_ = two
    kernel = second.start_kernel("mallory.ipynb")
    kernel.run("import fcntl, json, os, socket, subprocess\n" + TRIES)
    return kernel


def opens_nothing(classroom, victim: str) -> None:
    """Checks that a made-up token can't open the victim's server through the hub, and that the
    hub's login page is not a false page of the attacker."""
    made_up = {"Authorization": "token made-up-by-mallory"}
    for path in ("api/contents", "api/kernels", "api/terminals", "api/contents/secret.txt"):
        asked = f"{classroom.address}/user/{victim}/{path}"
        answer = requests.get(asked, headers=made_up, timeout=60, allow_redirects=False)
        assert answer.status_code >= 300, (path, answer.text[:300])
        assert "one.ipynb" not in answer.text
    shown = requests.get(f"{classroom.address}/hub/login", timeout=60)
    assert "access:servers" not in shown.text


def test_whoever_takes_free_ports_is_nobody_else_while_the_hub_is_down(two, classroom, mallory):
    """A learner who listens on free ports gets no request of other learners and can't replace the
    hub's sockets: before the hub crashes, while it is down, and after it restarts."""
    first, *_ = two
    ports = [*range(classroom.port + 1, classroom.port + 100), 8081, 8001]
    squats = FALSE_HUB.format(victim=first.name, ports=ports)
    assert int(mallory.run(squats)) > 50, "the ports could be had, so the attack was tried"
    opens_nothing(classroom, first.name)
    classroom.kill_hub()
    opens_nothing(classroom, first.name)
    for path in ("hub.sock", "private/hub.sock", "private/proxy.sock", "private/board.sock"):
        for way in (
            "serves_socket('{0}')",
            "os.remove('{0}')",
            "os.rename('{0}', '/tmp/x')",
            "os.symlink('/tmp', '{0}.new')",
        ):
            said = mallory.run(f"print(tries(lambda: {way.format(RUN / path)}))")
            assert said == "refused\n" or "already in use" in said, (way, path, said)
    classroom.start()
    opens_nothing(classroom, first.name)
    assert first.ask("GET", f"/user/{first.name}/api/contents").status_code == 200
    mallory.run("for one in false: one.shutdown(), one.server_close()")


def test_the_sockets_of_others_and_of_root_are_closed(two, mallory):
    *_, server, _ = two
    uid = os.stat(f"/proc/{server}").st_uid
    mallory.run("def connects(path): socket.socket(socket.AF_UNIX).connect(path)")
    paths = [f"{uid}/server.sock", f"private/server-{uid}.sock"]
    paths += ["private/proxy.sock", "private/board.sock"]
    for path in paths:
        assert (RUN / path).is_socket(), path
        said = mallory.run(f"print(tries(lambda: connects('{RUN / path}')))")
        assert said == "refused\n", path
    assert stat.S_IMODE((RUN / "private").stat().st_mode) == 0o700
    assert (RUN.stat().st_uid, stat.S_IMODE(RUN.stat().st_mode)) == (0, 0o711)
    said = mallory.run("print(tries(lambda: os.listdir('/run/debubble/private')))")
    assert said == "refused\n"


def test_a_link_in_place_of_a_servers_socket_leads_nowhere(classroom, learners):
    """A learner's server whose socket is a link to another socket is refused: the proxy runs as
    root, and would follow the link to sockets that the learner can't reach."""
    learner = learners[2]
    kernel = learner.start_kernel("links.ipynb")
    config = (
        "import os, time\n"
        "at = os.path.join(os.environ['JUPYTER_RUNTIME_DIR'], 'server.sock')\n"
        "os.path.lexists(at) or os.symlink('/run/debubble/private/proxy.sock', at)\n"
        "time.sleep(5)\n"
    )
    kernel.run(
        "import os, pathlib\n"
        "folder = pathlib.Path(os.path.expanduser('~/.jupyter'))\n"
        "folder.mkdir(exist_ok=True)\n"
        f"_ = (folder / 'jupyter_server_config.py').write_text({config!r})"
    )
    stops(learner)
    asked = learner.ask("POST", f"/hub/api/users/{learner.name}/server")
    assert asked.status_code != 201, asked.text
    until = time.monotonic() + 120
    while "is no socket of" not in classroom.log.read_text():
        assert time.monotonic() < until
        time.sleep(0.5)
    assert learner.ask("GET", f"/user/{learner.name}/api/routes").status_code >= 300
    home = classroom.folder / "workspaces" / learner.name
    (home / ".jupyter" / "jupyter_server_config.py").unlink()
    stops(learner)
    learner.start_server()


def stops(learner: Learner) -> None:
    """Stops the learner's server, and returns once the hub knows of none."""
    until = time.monotonic() + 120
    while learner.ask("GET", f"/hub/api/users/{learner.name}").json()["servers"]:
        learner.ask("DELETE", f"/hub/api/users/{learner.name}/server")
        assert time.monotonic() < until
        time.sleep(1)


def test_files_that_are_no_tickets_leave_the_board_as_it_is(classroom, learners, mallory):
    mallory.run(
        "held = []\n"
        "names = ['0x-me-1', '00-', '0' * 50, '1-\\u202e-1', *(f'{n}-x-{n}' for n in range(300))]\n"
        "for name in names:\n"
        "    held.append(open('/run/debubble/gpu/' + name, 'w'))\n"
        "    fcntl.flock(held[-1], fcntl.LOCK_EX)\n"
    )
    answer = learners[0].session.get(f"{classroom.address}/services/board/data", timeout=60)
    assert answer.status_code == 200, answer.text
    assert answer.json()["gpu"] == []
    mallory.run("for file in held: os.remove(file.name), file.close()")


@pytest.mark.parametrize(
    "harm",
    [
        "os.mkfifo(at)",
        "os.symlink('/etc/shadow', at)",
        "os.symlink('/dev/zero', at)",
        "os.mkdir(at)",
        'open(at, "w").write(\'{"kind": "prediction", "value": NaN, "cell": [1]}\\n\' * 9999)',
        "open(at, 'w').write('[' * 2_000_000)",
        "os.truncate(os.open(at, os.O_CREAT | os.O_RDWR), 2**31)",
    ],
)
def test_a_progress_file_that_means_harm_leaves_the_board_to_the_others(
    classroom, learners, mallory, harm
):
    mallory.run(
        "at = os.path.expanduser('~/debubble/my/progress.jsonl')\n"
        "os.path.exists(at) and os.rename(at, at + '.kept')\n"
        f"_ = {harm}"
    )
    time.sleep(1)  # The board looks twice a second.
    try:
        answer = learners[0].session.get(f"{classroom.address}/services/board/data", timeout=60)
        assert answer.status_code == 200
        assert len(answer.json()["learners"]) >= len(learners) - 1
        assert "root:" not in answer.text
    finally:
        mallory.run(
            "is_folder = os.path.isdir(at) and not os.path.islink(at)\n"
            "_ = os.rmdir(at) if is_folder else os.remove(at)\n"
            "os.path.exists(at + '.kept') and os.rename(at + '.kept', at)"
        )


def test_wrong_names_keep_nobody_out_who_has_the_right_password(classroom):
    def guesses(n: int) -> int:
        return Learner(classroom.address, f"nobody{n}").log_in("a wrong word").status_code

    with ThreadPoolExecutor(20) as several:
        assert set(several.map(guesses, range(60))) <= {403, 429}
    for name in classroom.names[3:6]:
        assert Learner(classroom.address, name).log_in(f"a word of {name}").status_code == 302


@pytest.mark.parametrize(
    ("header", "number"),
    [("X-Real-IP", 2), ("X-Forwarded-For", 3), ("X-Client-IP", 4), ("Forwarded", 5)],
)
def test_a_made_up_address_makes_no_guess_faster(classroom, header, number):
    name = classroom.names[number]

    def guesses(n: int) -> int:
        guesser = Learner(classroom.address, name)
        guesser.session.headers[header] = f"203.0.113.{n}"
        return guesser.log_in(f"guess {n}").status_code

    with ThreadPoolExecutor(10) as several:  # At once: the test rests on no clock.
        answers = list(several.map(guesses, range(10)))
    assert answers.count(429) >= 5, answers
    assert Learner(classroom.address, name).log_in(f"a word of {name}").status_code == 302
    assert "203.0.113." not in classroom.log.read_text(), "the hub never read it"


class FromAddress(requests.adapters.HTTPAdapter):
    def __init__(self, address: str) -> None:
        self.address = address
        super().__init__()

    def init_poolmanager(self, *args, **about) -> None:
        super().init_poolmanager(*args, source_address=(self.address, 0), **about)


def test_other_addresses_of_this_host_make_no_guess_faster(classroom):
    name = classroom.names[3]

    def guesses(n: int) -> int:
        guesser = Learner(classroom.address, name)
        guesser.session.mount("http://", FromAddress(f"127.0.9.{n + 1}"))
        return guesser.log_in(f"guess {n}").status_code

    with ThreadPoolExecutor(9) as several:
        answers = list(several.map(guesses, range(9)))
    assert answers.count(429) >= 4, answers
    assert Learner(classroom.address, name).log_in(f"a word of {name}").status_code == 302


def test_guesses_past_the_proxy_are_as_slow(classroom, mallory):
    """Guesses at a password are refused with 429 after a few, also if a learner's program sends
    them directly to the hub's own socket, where it can set any header."""
    mallory.run(PAST_THE_PROXY)
    name = classroom.names[4]
    said = mallory.run(f"print([guesses('{name}', f'guess {{n}}', n) for n in range(9)])")
    assert said == f"{[403] * 5 + [429] * 4}\n" or said == f"{[403] * 4 + [429] * 5}\n", said
    assert Learner(classroom.address, name).log_in(f"a word of {name}").status_code == 302


def test_a_flood_of_guesses_is_read_one_after_the_other(classroom):
    """The hub tries at most 5 of 40 guesses at a password at the same time, and refuses the rest
    with 429. The right password works after the flood."""
    name = classroom.names[1]
    guess = lambda n: Learner(classroom.address, name).log_in(f"guess {n}").status_code
    with ThreadPoolExecutor(40) as several:
        answers = list(several.map(guess, range(40)))
    assert set(answers) <= {403, 429} and answers.count(403) <= 5, answers
    until = time.monotonic() + 120
    while Learner(classroom.address, name).log_in(f"a word of {name}").status_code != 302:
        assert time.monotonic() < until


@pytest.mark.parametrize(
    "path",
    [
        "/user/{own}/../{other}/api/contents",
        "/user/{own}/%2e%2e/{other}/api/contents",
        "/user/{own}%2f..%2f{other}/api/contents",
        "/user/{own}/..%2f{other}/api/contents",
        "//user/{other}/api/contents",
        "/user/{other}/api/contents?token=made-up",
    ],
)
def test_no_way_of_writing_a_path_leads_to_anothers_server(two, classroom, path):
    first, second, *_ = two
    asked = path.format(own=second.name, other=first.name)
    with socket.create_connection(("127.0.0.1", classroom.port), timeout=60) as raw:
        token = second.headers["Authorization"]
        raw.sendall(
            f"GET {asked} HTTP/1.1\r\nHost: hub\r\nAuthorization: {token}\r\n"
            "Connection: close\r\n\r\n".encode()
        )
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 ")
    assert b"one.ipynb" not in answer and b'"kernel.json"' not in answer
    assert not answer.startswith(b"HTTP/1.1 200")


def test_a_channel_to_anothers_kernel_is_not_opened(two, classroom):
    first, second, one, *_ = two
    base = classroom.address.replace("http", "ws", 1)
    address = f"{base}/user/{first.name}/api/kernels/{one.id}/channels"
    header = [f"{name}: {text}" for name, text in second.headers.items()]
    with pytest.raises(websocket.WebSocketBadStatusException):
        websocket.create_connection(address, header=header, timeout=60)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "shutdown"),
        ("GET", "proxy"),
        ("PATCH", "proxy"),
        ("POST", "users/mallory"),
        ("PATCH", "users/{own}"),
        ("DELETE", "users/{other}"),
        ("POST", "users/{other}/tokens"),
        ("POST", "users/{other}/server"),
        ("POST", "groups/all/users"),
    ],
)
def test_a_learners_token_commands_nothing_of_the_hub(two, method, path):
    first, second, *_ = two
    asked = path.format(own=second.name, other=first.name)
    answer = second.ask(method, f"/hub/api/{asked}", json={"admin": True, "name": "x"})
    assert answer.status_code in (403, 404), answer.text


def test_no_secret_stands_in_a_command_line(classroom, mallory):
    """No process's command line contains the proxy's token or a password, since every process of
    the host can read command lines."""
    said = mallory.run(
        "import pathlib\n"
        "for path in pathlib.Path('/proc').glob('[0-9]*/cmdline'):\n"
        "    try: print(path.read_text(errors='replace').replace(chr(0), ' '))\n"
        "    except OSError: pass\n"
    )
    assert "configurable-http-proxy" in said, "other users' command lines were read"
    secrets = [(classroom.folder / "state" / "proxy_token").read_text()]
    noted = (classroom.folder / "state" / "passwords.txt").read_text()
    secrets += [line.partition(": ")[2] for line in noted.splitlines()]
    assert len(secrets) >= 3 and not [secret for secret in secrets if secret in said]


def test_a_false_proxy_after_a_crash_of_the_proxy_is_refused_and_ended(classroom, mallory):
    """A learner's program may take the public port once the proxy is killed. The hub then doesn't
    start beside it and says why, and the end of the workshop ends the program."""
    classroom.kill_hub()
    os.kill(int((classroom.folder / "state" / "proxy.pid").read_text()), signal.SIGKILL)
    false = FALSE_HUB.format(victim=classroom.names[0], ports=[classroom.port])
    until = time.monotonic() + 60
    while b"configurable-http-proxy" in proxy_command(classroom):
        assert time.monotonic() < until
        time.sleep(0.1)
    workspaces = classroom.folder / "workspaces"
    uid = (workspaces / classroom.names[1]).stat().st_uid
    squatter = subprocess.Popen(
        ["/usr/bin/python3", "-c", f"import json, socket\n{false}\ninput()"],
        stdin=subprocess.PIPE,
        user=uid,
        group=uid,
        extra_groups=[],
    )
    while not [port for port, _ in listening() if port == classroom.port]:
        assert time.monotonic() < until and squatter.poll() is None
        time.sleep(0.1)
    assert "can't be opened" in classroom.refusal()
    classroom.end()
    assert squatter.wait(60) == -signal.SIGKILL
    classroom.start()
    opens_nothing(classroom, classroom.names[0])


def proxy_command(classroom) -> bytes:
    number = (classroom.folder / "state" / "proxy.pid").read_text()
    try:
        return Path(f"/proc/{number}/cmdline").read_bytes()
    except OSError:
        return b""


def test_a_user_of_the_host_with_a_learners_id_keeps_files_and_processes(classroom, learners):
    """A user who is added to the host with a learner's id (as LDAP may do) loses no process at the
    end of the workshop, and the learner with that id no longer gets in."""
    if not shutil.which("useradd"):
        pytest.skip("this host has no useradd")
    uid = (classroom.folder / "workspaces" / learners[0].name).stat().st_uid
    classroom.end()
    name = "debubble-test-user"
    subprocess.run(["useradd", "--no-create-home", "--uid", str(uid), name], check=True)
    command = ["/bin/sleep", "1000"]
    sleeper = subprocess.Popen(command, user=uid, group=uid, extra_groups=[])
    try:
        said = " ".join(classroom.refusal().split())
        assert f"{learners[0].name} has the user id {uid}" in said
        assert f"{name} of this host" in said
        classroom.end()
        assert sleeper.poll() is None, "the process belongs to a user of the host"
    finally:
        sleeper.kill()
        sleeper.wait()
        subprocess.run(["userdel", name], check=True)
    classroom.start()


def test_a_learner_who_fights_the_end_is_ended_and_keeps_no_port(classroom, learners):
    """The end of the workshop ends all processes of a learner, even one that resists, and frees the
    port. (This test is the last: it ends the workshop, and starts it again.)"""
    fights = FIGHTS.format(port=classroom.port)
    command = f"['/usr/bin/python3', '-c', {fights!r}]"
    classroom.come_in(learners[1].name).start_server()
    kernel = learners[1].start_kernel("fights.ipynb")
    kernel.run(f"import subprocess\n_ = subprocess.Popen({command}, start_new_session=True)")
    workspaces = classroom.folder / "workspaces"
    uids = {(workspaces / name).stat().st_uid for name in classroom.names[:2]}
    classroom.end()
    assert not [path for path in Path("/proc").glob("[0-9]*") if runs_as(path, uids)]
    with socket.create_server(("127.0.0.1", classroom.port)):
        pass
    classroom.start()
    opens_nothing(classroom, classroom.names[0])
    assert Learner(classroom.address, classroom.names[0]).log_in("made up").status_code == 403


def runs_as(process: Path, uids: set[int]) -> bool:
    try:
        if process.stat().st_uid not in uids:
            return False
        return not (process / "stat").read_text().rpartition(") ")[2].startswith(("Z", "X"))
    except OSError:
        return False
