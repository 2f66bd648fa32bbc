"""A running hub with a class, shared by all deep tests of this folder."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from .classroom import LEARNERS, Classroom, why_not
from .learner import Learner


@pytest.fixture(scope="session")
def classroom():
    named = os.environ.get("DEBUBBLE_TEST_HUB")
    if not named:
        pytest.skip("`make test-hub` says in which folder the class may meet")
    reason = why_not()
    if reason:
        pytest.skip(reason)
    folder = Path(named)
    room = Classroom(folder, LEARNERS)
    clear(room)  # A run that ended early may have left files.
    try:
        room.start()
        yield room
    finally:
        clear(room)


def clear(room: Classroom) -> None:
    room.end()
    for name in ("workspaces", "state", "scripts"):
        shutil.rmtree(room.folder / name, ignore_errors=True)
    room.log.unlink(missing_ok=True)  # The tests read it.


@pytest.fixture(scope="session")
def learners(classroom) -> list[Learner]:
    """Logs all learners in and starts their servers, all at the same time, and returns the
    learners."""

    def comes(name: str) -> Learner:
        learner = classroom.come_in(name)
        learner.start_server()
        return learner

    with ThreadPoolExecutor(LEARNERS) as all_at_once:
        return list(all_at_once.map(comes, classroom.names))


@pytest.fixture(scope="session")
def two(learners):
    """Returns (first learner, second learner, a kernel of each, the process ids of the first one's
    server and of a `sleep` that this kernel started). The first learner has a file secret.txt."""
    first, second = learners[:2]
    one, other = first.start_kernel("one.ipynb"), second.start_kernel("two.ipynb")
    one.run(
        "import os, subprocess\n"
        "open(os.path.expanduser('~/secret.txt'), 'w').write('mine')\n"
        "sleeper = subprocess.Popen(['sleep', '1000'])\n"
    )
    server = int(one.run("print(os.getppid())"))
    sleeper = int(one.run("print(sleeper.pid)"))
    other.run("import os, subprocess, signal")
    return first, second, one, other, server, sleeper
