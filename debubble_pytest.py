"""The pytest marker `no_host_syncs`: the body of a test may not wait for the device.

    @pytest.mark.no_host_syncs
    def test_a_step_never_waits(model, batch):
        model.step(batch)

Fixtures may wait, before the body and after it, and so may whatever stands in
`with debubble.allow_host_sync():`, such as the comparison at the end.

pytest loads this file in every suite of an environment. It is no part of the package `debubble`, so
that none of that, nor torch, is imported where no test is marked.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

MARKER = "no_host_syncs"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARKER}: the test's body fails where it waits for the GPU, outside allow_host_sync()",
    )


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Innermost, so that only the body is in the region."""
    if item.get_closest_marker(MARKER) is None:
        return (yield)
    import debubble
    from debubble.detector.tracebacks import up_to_the_users_line

    try:
        with debubble.no_host_syncs():
            return (yield)
    except debubble.HostSyncError as error:
        error.add_note("If this wait is meant, put it into `with debubble.allow_host_sync():`.")
        # What stands between the line that waits and here is ours, and explains nothing.
        raise error.with_traceback(up_to_the_users_line(error.__traceback__)) from None
