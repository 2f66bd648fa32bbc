"""The hub's parts, tested without a hub: settings, ids of learners, limits, sockets."""

import json
import os
import pwd
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from workshop.hub import proxy
from workshop.hub import workspaces as module
from workshop.hub.limits import GIB, Cgroups, Limits, become
from workshop.hub.names import TEACHER
from workshop.hub.refusal import Refusal
from workshop.hub.settings import CHECKOUT, dropped_by_sudo, handed_on, settings
from workshop.hub.workspaces import (
    Learner,
    Workspaces,
    end_processes_of,
    end_servers_of,
    free_uids,
)

pytestmark = pytest.mark.sim
FIRST_UID = 1_900_000_000
"""The first uid of these tests' learners; no hub on this host uses it."""
LIMITS = Limits(memory_gb=1.5, processes=100, cores=0)


@pytest.fixture
def ours(monkeypatch, tmp_path):
    for name in handed_on():
        monkeypatch.delenv(name)
    monkeypatch.setenv("HUB", str(tmp_path))
    monkeypatch.setenv("HUB_RUN", str(tmp_path / "run"))
    monkeypatch.setenv("HUB_FIRST_UID", str(FIRST_UID))
    return settings()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("HUB_MEMORY_GB", "much", "HUB_MEMORY_GB=much is no number: write HUB_MEMORY_GB=2"),
        ("HUB_MEMORY_GB", "0.1", "HUB_MEMORY_GB=0.1 is out of reach"),
        ("PORT", "70000", "PORT=70000 is out of reach"),
        ("PORT", "nan", "PORT=nan is out of reach"),
        ("HUB_FIRST_UID", "7", "HUB_FIRST_UID=7 is out of reach: it may be 1000 to"),
        ("HUB_TRUSTED_PROXY", "10.0.0.1, front", "front is no IP address"),
        ("USERS", "everybody", "write USERS=list or USERS=host"),
        ("HUB_CERT", "/nowhere.pem", "TLS needs both HUB_CERT and HUB_KEY"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(ours, monkeypatch, name, text, said):
    monkeypatch.setenv(name, text)
    with pytest.raises(Refusal, match=said):
        settings()


def test_the_board_has_the_hubs_settings_wherever_it_stands(ours, monkeypatch, tmp_path):
    """The board reads the same settings as the hub, although JupyterHub starts it in a different
    folder and with only the variables that the hub hands on."""
    for name, text in (("HUB", "a/hub"), ("PORT", "9000"), ("HUB_RUN", "run"), ("NAMES", "n.txt")):
        monkeypatch.setenv(name, text)
    monkeypatch.setenv("HUB_PASSWORD", "the class has this one")
    hubs, variables = settings(), handed_on()
    assert hubs.folder == CHECKOUT / "a/hub" and "HUB_PASSWORD" not in variables
    for name in list(os.environ):
        if name not in ("PATH", "HOME"):
            monkeypatch.delenv(name)
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    monkeypatch.chdir(tmp_path)
    boards = settings()
    assert boards == hubs
    assert (boards.environment, boards.gpu_queue) == (
        CHECKOUT / "a/hub/environment",
        CHECKOUT / "run/gpu",
    )


def test_a_learners_number_stays_theirs_whoever_comes_and_goes(ours):
    ours.state.mkdir()
    Workspaces(ours)._number(["ada", "grace"])
    Workspaces(ours)._number(["edsger", "grace"])
    workspaces = Workspaces(ours)
    found = {name: workspaces.learner(name).uid - FIRST_UID for name in ("ada", "grace", "edsger")}
    assert found == {"ada": 0, "grace": 1, "edsger": 2}
    with pytest.raises(Refusal, match="mallory is not on the list"):
        workspaces.learner("mallory")


@pytest.fixture
def host_user(monkeypatch):
    """Returns a function (uid, name) that adds a user to the host's user database who is in no file
    of the host, as LDAP users are."""
    found = {}
    look_up = lambda uid: found[uid]
    monkeypatch.setattr(module.pwd, "getpwuid", look_up)
    return lambda uid, name: found.update({uid: (name,)})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")
def test_no_learner_gets_an_id_that_something_of_the_host_has(ours, host_user, monkeypatch):
    ours.state.mkdir()
    host_user(71_101, "ldap-user")
    monkeypatch.setattr(module, "_lent", lambda path: [range(71_102, 71_104)])
    with subprocess.Popen(["sleep", "100"], user=71_100, cwd="/") as process:
        assert next(free_uids(71_100, {71_104})) == 71_105
        Workspaces(replace(ours, first_uid=71_100))._number(["ada"])
        process.kill()
    assert Workspaces(ours).learner("ada").uid == 71_104


def test_ids_that_containers_may_use_are_read_from_the_hosts_files(tmp_path):
    path = tmp_path / "subuid"
    path.write_text("ada:100000:65536\n\n# a comment\nbroken\ngrace:x:1\n")
    assert module._lent(str(path)) == [range(100_000, 165_536)]
    assert module._lent(str(tmp_path / "none")) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")
def test_a_host_user_who_has_a_learners_id_by_now_loses_no_process_and_shows_no_file(
    ours, host_user
):
    ours.state.mkdir()
    workspaces = Workspaces(replace(ours, first_uid=71_110))
    workspaces._number(["ada", "grace"])
    host_user(71_110, "ldap-user")
    with pytest.raises(Refusal, match=r"ada has the user id 71110 .* and so has ldap-user"):
        workspaces.learner("ada")
    with pytest.raises(Refusal, match="name another HUB folder"):
        workspaces._number(["grace"])
    assert [one.name for one in workspaces.everybody()] == ["grace"]
    with subprocess.Popen(["sleep", "100"], user=71_110, cwd="/") as process:
        assert end_processes_of(71_110) == 0
        assert process.poll() is None
        process.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give folders away")
def test_a_folder_that_a_learner_owns_is_never_the_hubs(ours):
    ours.runtime.mkdir()
    os.chown(ours.runtime, 71_000, 71_000)
    with pytest.raises(Refusal, match="is not root's"):
        Workspaces(ours).prepare(["ada"])


def test_a_hub_that_runs_is_not_started_beside_itself(ours):
    main = pytest.importorskip("workshop.hub.__main__")
    ours.runtime.mkdir()
    with socket.socket(socket.AF_UNIX) as hub:
        hub.bind(str(ours.hub_socket))
        main.refuse_beside_another(ours)
        hub.listen()
        with pytest.raises(Refusal, match="runs already"):
            main.refuse_beside_another(ours)


def test_a_running_proxy_is_known_by_its_whole_command_and_its_owner(ours):
    """A proxy is running only if its recorded process has the hub's whole command and owner.
    Otherwise a proxy that listens at an old address would silently keep running."""
    ours.state.mkdir()
    asked = replace(ours, address="0.0.0.0")
    (ours.state / "proxy.pid").write_text("1")
    assert not proxy.is_running(ours), "a number that another process has by now"
    command = ["/bin/sh", "-c", "sleep 100 & wait", *proxy._command(ours)]
    with subprocess.Popen(command, start_new_session=True) as process:
        try:
            (ours.state / "proxy.pid").write_text(str(process.pid))
            while not proxy._running(ours):  # Waits until the process has become that command.
                assert process.poll() is None
            assert proxy.is_running(ours)
            assert proxy._running(ours)[3:] == proxy._command(ours) != proxy._command(asked)
            assert proxy.stop_if_it_differs(asked)
            assert not proxy.is_running(ours)
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_what_npm_brings_is_pinned_by_its_hash():
    lock = json.loads((proxy.LISTS / "package-lock.json").read_text())
    packages = {name: about for name, about in lock["packages"].items() if name}
    assert len(packages) > 30
    assert all(about["integrity"].startswith("sha512-") for about in packages.values())
    assert not [name for name, about in packages.items() if about.get("hasInstallScript")]
    named = json.loads((proxy.LISTS / "package.json").read_text())["dependencies"]
    assert lock["packages"][""]["dependencies"] == named


def test_variables_before_sudo_are_named(monkeypatch, tmp_path):
    """The hub names the variables that were set before `sudo` and that sudo dropped. The test runs
    a process named sudo, whose child is our Python without these variables."""
    sudo = tmp_path / "sudo"
    sudo.symlink_to("/bin/bash")
    look = "from workshop.hub.settings import dropped_by_sudo; print(dropped_by_sudo())"
    script = f'env -i PYTHONPATH="$PYTHONPATH" PORT=80 {sys.executable} -c "{look}"; true'
    around = {"HUB_ADDRESS": "0.0.0.0", "PORT": "80", "OTHER": "x", "PYTHONPATH": str(CHECKOUT)}
    done = subprocess.run(
        [sudo, "-c", script], env=around, cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "{'HUB_ADDRESS': '0.0.0.0'}\n"
    assert dropped_by_sudo() == {}


@pytest.mark.parametrize(
    ("around", "given", "shown"),
    [
        ({}, [], "8000 "),
        ({"PORT": "9000"}, [], "9000 "),
        ({}, ["PORT=443", "HUB_ADDRESS=0.0.0.0"], "443 0.0.0.0"),
    ],
)
def test_make_hands_its_variables_to_the_hub(tmp_path, around, given, shown):
    """`make hub-end` passes PORT and HUB_ADDRESS to the hub's program, from the environment or from
    make's arguments. The default port is 8000, which differs from that of `make lab`."""
    python = tmp_path / "environment" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "$PORT $HUB_ADDRESS"\n')
    python.chmod(0o755)
    around = {"PATH": os.environ["PATH"], "HUB": str(tmp_path), **around}
    done = subprocess.run(
        ["make", "hub-end", *given],
        cwd=CHECKOUT,
        env=around,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{shown}\n"


def test_new_passwords_are_kept_where_root_alone_reads(ours):
    main = pytest.importorskip("workshop.hub.__main__")
    ours.state.mkdir()
    main.note_passwords(ours, {"class": "one"})
    main.note_passwords(ours, {"teacher": "two"})
    assert ours.noted_passwords.read_text() == "class: one\nteacher: two\n"
    assert ours.noted_passwords.stat().st_mode & 0o777 == 0o600


def test_whoever_teaches_is_no_learner_on_the_board(ours):
    ours.state.mkdir()
    assert Workspaces(ours).learners() == []
    Workspaces(ours)._number(["ada", "grace", TEACHER])
    ids = {one.name: one.uid for one in Workspaces(ours).learners()}
    assert ids == {"ada": FIRST_UID, "grace": FIRST_UID + 1}


def test_users_of_the_host_are_looked_for_where_they_live(ours):
    ours.state.mkdir()
    workspaces = Workspaces(replace(ours, host_users=True))
    workspaces._number(["daemon", "nobody-of-this-name", TEACHER])
    (daemon,) = workspaces.learners()
    known = pwd.getpwnam("daemon")
    assert (daemon.uid, daemon.home) == (known.pw_uid, Path(known.pw_dir))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")
def test_of_a_user_of_the_host_the_server_alone_is_ended():
    def runs(*words: str) -> subprocess.Popen:
        command = ["/usr/bin/python3", "-c", "import time; time.sleep(100)", *words]
        return subprocess.Popen(command, user=71_001, cwd="/")

    with runs("jupyterhub.singleuser") as server, runs() as another:
        try:
            assert end_servers_of(71_001) == 1
            assert server.wait(10) == -signal.SIGTERM
            assert another.poll() is None
        finally:
            server.kill()
            another.kill()


def test_a_host_user_who_does_not_exist_is_named(ours):
    with pytest.raises(Refusal, match="nobody-of-this-name is no user of this host"):
        Workspaces(replace(ours, host_users=True)).learner("nobody-of-this-name")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a disk that is full")
def test_a_full_disk_is_one_sentence_and_no_half_workspace(ours, tmp_path):
    workspaces = Workspaces(ours)
    for folder in (ours.state, ours.workspaces):
        folder.mkdir()
    workspaces._number(["ada"])
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=777", "tmpfs", str(ours.workspaces)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        tmp_path.chmod(0o755)
        source = tmp_path / "source"
        source.mkdir()
        (source / "Makefile").write_bytes(os.urandom(3_000_000))
        git = ["git", "-C", str(source), "-c", "user.name=n", "-c", "user.email=e"]
        for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
            subprocess.run([*git, *command], check=True)
        workspaces.bundle = tmp_path / "checkout.bundle"
        create = [*git, "bundle", "create", "-q", str(workspaces.bundle), "HEAD"]
        subprocess.run(create, check=True, capture_output=True)
        for above in workspaces.bundle.parents[:2]:
            above.chmod(0o755)
        ada = workspaces.learner("ada")
        with pytest.raises(Refusal, match=r"The workspace of ada can't be made: .*GB is free"):
            workspaces.make(ada)
        assert not (ada.checkout / "Makefile").exists()
    finally:
        subprocess.run(["umount", str(ours.workspaces)], check=True)


def test_a_hub_on_all_addresses_is_named_by_its_host(ours, monkeypatch):
    main = pytest.importorskip("workshop.hub.__main__")
    monkeypatch.setattr(main.socket, "getfqdn", lambda: "hub.example.org")
    said = main.welcome(replace(ours, address="0.0.0.0"), ["ada"], {})
    assert f"at http://hub.example.org:{ours.port}," in said and "//0.0.0.0" not in said


LISTENS = """
import signal, socket, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN if len(sys.argv) > 2 else signal.SIG_DFL)
hub = socket.socket(socket.AF_UNIX)
hub.bind(sys.argv[1])
hub.listen()
signal.pause()
"""


@pytest.mark.parametrize(
    ("ignores", "ended"), [([], signal.SIGTERM), (["ignores"], signal.SIGKILL)]
)
def test_the_end_ends_a_hub_that_still_runs_in_another_terminal(ours, monkeypatch, ignores, ended):
    main = pytest.importorskip("workshop.hub.__main__")
    ours.runtime.mkdir()
    ours.state.mkdir()
    monkeypatch.setattr(main, "HUB_SECONDS", 1.0)
    hub = subprocess.Popen([sys.executable, "-c", LISTENS, str(ours.hub_socket), *ignores])
    try:
        until = time.monotonic() + 30
        while not main.is_answered(ours.hub_socket):
            assert time.monotonic() < until and hub.poll() is None
            time.sleep(0.05)
        main.end(ours)
        assert hub.wait(10) == -ended
        main.refuse_beside_another(ours)
    finally:
        hub.kill()


def test_the_end_leaves_nothing_of_a_learner_to_whoever_gets_their_number_next(
    ours, monkeypatch, capsys
):
    main = pytest.importorskip("workshop.hub.__main__")
    monkeypatch.setattr(main, "end_processes_of", lambda uid: 0)
    ours.state.mkdir()
    Workspaces(ours)._number(["ada"])
    left = ours.runtime / str(FIRST_UID) / "kernel.json"
    left.parent.mkdir(parents=True)
    left.touch()
    main.end(ours)
    assert not left.exists()
    assert "of 1 learners" in capsys.readouterr().out


def test_two_hubs_whose_learners_would_share_numbers_are_refused(ours, monkeypatch, tmp_path):
    main = pytest.importorskip("workshop.hub.__main__")
    main.refuse_beside_another(ours)
    ours.runtime.mkdir()
    (ours.runtime / "hub").write_text("/srv/another")
    main.refuse_beside_another(ours)
    runs = lambda asked: str(asked.folder) == "/srv/another"
    monkeypatch.setattr(main.proxy, "is_running", runs)
    with pytest.raises(Refusal, match="HUB=/srv/another make hub-end ends it"):
        main.refuse_beside_another(ours)


def test_no_hub_to_end_is_one_sentence(tmp_path):
    around = {"PATH": os.environ["PATH"], "HUB": str(tmp_path / "no hub")}
    done = subprocess.run(
        ["make", "hub-end"], cwd=CHECKOUT, env=around, capture_output=True, text=True, check=False
    )
    assert (
        done.returncode
        and done.stdout == f"No hub was set up in {tmp_path}/no hub: HUB=... names its folder\n"
    )


def test_processes_of_the_hosts_own_users_are_never_ended():
    assert end_processes_of(0) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")
def test_a_process_is_ended_once_though_nobody_has_asked_how_it_ended():
    with subprocess.Popen(["sleep", "100"], user=71_002, cwd="/") as process:
        assert end_processes_of(71_002) == 1
    assert process.returncode == -signal.SIGKILL


def test_cgroups_of_version_2_hold_memory_processes_and_cores(tmp_path):
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids")
    groups = Cgroups(tmp_path)
    assert groups.kind == "v2"
    (tmp_path / "debubble" / "ada").mkdir()
    files = ("memory.max", "memory.swap.max", "pids.max", "cpu.max", "memory.oom.group")
    for name in files:
        (tmp_path / "debubble" / "ada" / name).touch()
    joins = groups.make("ada", replace(LIMITS, cores=1.5))
    found = {name: (tmp_path / "debubble" / "ada" / name).read_text() for name in files}
    assert found["memory.max"] == str(int(1.5 * GIB)) and found["pids.max"] == "100"
    assert found["cpu.max"] == "150000 100000"
    assert joins == [tmp_path / "debubble" / "ada" / "cgroup.procs"]


def test_what_a_group_counted_ends_with_it(tmp_path):
    for kind in ("memory", "pids", "cpu"):
        (tmp_path / kind / "debubble" / "ada").mkdir(parents=True)
    groups = Cgroups(tmp_path)
    groups.kind = "v1"
    groups.remove("ada")
    groups.remove("grace")
    assert not list(tmp_path.glob("*/debubble/*"))


def test_a_host_without_cgroups_is_held_by_rlimits(tmp_path):
    assert Cgroups(tmp_path).kind == ""
    look = (
        "import resource as r; print(r.getrlimit(r.RLIMIT_DATA)[1], r.getrlimit(r.RLIMIT_CORE)[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", look],
        preexec_fn=become(os.getuid(), os.getgid(), LIMITS, []),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [str(int(1.5 * GIB)), "0"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")
def test_a_server_has_no_right_that_its_learner_has_not():
    look = (
        "import os\n"
        "print(os.getresuid(), os.getresgid(), os.getgroups())\n"
        "lines = open('/proc/self/status').readlines()\n"
        "print([line for line in lines if line.startswith(('CapEff', 'NoNew'))])\n"
        "try:\n    os.setuid(0)\nexcept PermissionError:\n    print('refused')\n"
    )
    done = subprocess.run(
        ["/usr/bin/python3", "-c", look],
        preexec_fn=become(71_000, 71_000, LIMITS, []),
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
    )
    assert "(71000, 71000, 71000) (71000, 71000, 71000) []" in done.stdout
    assert "CapEff:\\t0000000000000000" in done.stdout and "NoNewPrivs:\\t1" in done.stdout
    assert done.stdout.endswith("refused\n")


def test_a_taken_port_is_named_with_the_way_out(ours, monkeypatch):
    main = pytest.importorskip("workshop.hub.__main__")
    monkeypatch.setattr(main, "TRIES", 1)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Refusal, match=f"Port {port} of 127.0.0.1 can't be opened .*PORT="):
            main.refuse_a_taken_port(replace(ours, port=port))


def test_a_python_that_learners_cannot_run_is_named_with_the_way_out(ours, monkeypatch, tmp_path):
    main = pytest.importorskip("workshop.hub.__main__")
    python = ours.environment / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    tmp_path.chmod(0o700)
    with pytest.raises(Refusal, match=r"can't be run by learners.*PYTHON=/usr/bin/python3"):
        main.refuse_python_that_learners_cannot_run(ours, Learner("ada", 71_003, 71_003, tmp_path))
