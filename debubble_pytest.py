"""The pytest markers `no_host_syncs` and `no_compiles`, and the option `--as-cuda`.

The body of a marked test may not wait for the device, and on sim it may have no race:

    @pytest.mark.no_host_syncs
    def test_a_step_never_waits(model, batch):
        model.step(batch)

The body of a test with the marker `no_compiles` may have no kernel compiled, outside
`with debubble.allow_compiles():`.

Fixtures may wait, before the body and after it, and so may whatever stands in
`with debubble.allow_host_sync():`, such as the comparison at the end.

With `--as-cuda` whatever says "cuda", in tests and in what they test, runs on the simulated
accelerator: a suite for GPUs needs none.

pytest loads this file in every suite of an environment. It is no part of the package `debubble`, so
that none of that, nor torch, is imported where no test is marked.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack

import pytest

MARKER = "no_host_syncs"
COMPILES = "no_compiles"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("debubble").addoption(
        "--as-cuda",
        action="store_true",
        help='run on the simulated accelerator what says "cuda": no GPU is needed',
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Before any code of the suite asks whether there is a GPU."""
    _take_cuda_for_sim(early_config)


def _take_cuda_for_sim(config: pytest.Config) -> None:
    """For as long as pytest runs, once."""
    if not getattr(config.known_args_namespace, "as_cuda", False) or config.stash.get(TAKEN, False):
        return
    config.stash[TAKEN] = True
    import debubble

    until_the_end = ExitStack()
    try:
        until_the_end.enter_context(debubble.as_cuda())
    except (ImportError, RuntimeError) as error:
        raise pytest.UsageError(f"--as-cuda: {error}") from None
    config.add_cleanup(until_the_end.close)


TAKEN = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARKER}: the test's body fails where it waits for the GPU, outside allow_host_sync()",
    )
    config.addinivalue_line(
        "markers",
        f"{COMPILES}: the test's body fails where a kernel is compiled, outside allow_compiles()",
    )
    # A conftest that names this plugin loads it too late for the hook above.
    _take_cuda_for_sim(config)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Innermost, so that only the body is in the region."""
    if item.get_closest_marker(COMPILES) is None:
        return (yield from _without_waits(item))
    try:
        from debubble import no_compiles
    except ImportError as error:
        pytest.fail(f"the marker {COMPILES}: {error}", pytrace=False)
    with no_compiles():
        return (yield from _without_waits(item))


def _without_waits(item: pytest.Item) -> Generator[None, object, object]:
    """Runs the body, in a region without host syncs if the test is marked."""
    if item.get_closest_marker(MARKER) is None:
        return (yield)
    try:
        from debubble import no_host_syncs
        from debubble.accelerator import current
        from debubble.contract.host_syncs import HostSyncError
        from debubble.detector.tracebacks import up_to_the_users_line
    except ImportError as error:
        pytest.fail(f"the marker {MARKER}: {error}", pytrace=False)
    races: Sequence[object] = ()
    try:
        with current().proving_races() as races, no_host_syncs():
            result = yield
    except HostSyncError as error:
        error.add_note("If this wait is meant, put it into `with debubble.allow_host_sync():`.")
        # What stands between the line that waits and here is ours, and explains nothing.
        raise error.with_traceback(up_to_the_users_line(error.__traceback__)) from None
    finally:
        said = "\n".join(dict.fromkeys(map(str, races)))
    if said:
        pytest.fail(f"a race was proved, so results may be wrong:\n{said}", pytrace=False)
    return result
