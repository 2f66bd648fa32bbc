"""The fixtures of all our tests: a test's accelerator, its share of GPU memory, and patience for a
busy machine."""

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hypothesis import settings

import debubble

from .deep import all_run, slice_of
from .gpu_memory import much_memory

# A property's first example includes the time of compilation and imports.
settings.register_profile("debubble", deadline=None, max_examples=20)
settings.register_profile("deep", deadline=None)
settings.load_profile("debubble")

# Variables of a shell that would change what is printed, run or modelled.
for name in (
    "COLUMNS",
    "LINES",
    "FORCE_COLOR",
    "NO_COLOR",
    "DEBUBBLE_CALIBRATION",
):
    os.environ.pop(name, None)

# A pytest that a test starts elsewhere would import nbval, which takes 4 seconds of a core.
os.environ["PYTEST_ADDOPTS"] = "-p no:nbval"

# Repositories of tests must not use the user's settings: commits may be signed or have hooks, and
# in a hook GIT_DIR names a different repository.
for name in [name for name in os.environ if name.startswith("GIT_")]:
    if not name.startswith(("GIT_CONFIG", "GIT_SSL")):
        del os.environ[name]
OURS = {"commit.gpgsign": "false", "core.hooksPath": os.devnull}
os.environ["GIT_CONFIG_COUNT"] = str(len(OURS))
for number, (key, text) in enumerate(OURS.items()):
    os.environ |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": text}

NEEDS = {"gpu": "cuda", "sim": "sim"}
"""The accelerator that each marker requires, by marker. A process has one accelerator, so tests
marked for the other one are skipped."""

HELD = pytest.StashKey[ExitStack]()
"""The key under which a test marked `gpu_memory` stores its reserved GPU memory, from before its
fixtures are made until they are torn down."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--deep", action="store_true", help="all of the tests marked deep, not only a slice of them"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("deep"):
        settings.load_profile("deep")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not all_run(config):
        items[:], left_out = slice_of(items)
        config.hook.pytest_deselected(items=left_out)


def pytest_collection_finish() -> None:
    """Keeps later collections of garbage from searching all that was imported and collected, which
    is millions of objects in a run of all tests."""
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def made_before_pytest_runs_in_pytest(accelerator):
    """Makes the accelerator before any test that runs pytest inside pytest. Such a run drops its
    imports, and PyTorch can't register a device twice."""


@pytest.fixture
def as_a_script(monkeypatch):
    """Restores after the test what running a script in this process changes."""
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])


@pytest.fixture
def only_launched(accelerator, monkeypatch):
    """Makes Triton kernels on sim take their modelled time but compute nothing: enough for tests of
    the host's work, which must not read the kernels' results."""
    if accelerator.modelled:
        monkeypatch.setattr(
            "debubble.sim.kernels.launches.guarded", lambda call, tensors, name: set()
        )


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker, name in NEEDS.items():
        if item.get_closest_marker(marker):
            present = debubble.accelerator(item.config.getoption("device") or "auto")
            if present.name != name:
                pytest.skip(f"needs {name}, and this run is on {present.description}")
    much = item.get_closest_marker("gpu_memory")
    if much:
        present = debubble.accelerator(item.config.getoption("device") or "auto")
        if present.name == "cuda":
            held = item.stash[HELD] = ExitStack()
            held.enter_context(much_memory(*much.args, present.device))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Releases the GPU memory that a test marked `gpu_memory` has reserved, once its fixtures are
    torn down."""
    with item.stash.get(HELD, ExitStack()):
        return (yield)
