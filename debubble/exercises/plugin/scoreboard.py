"""Writes the header of a run of katas, and at its end which are solved."""

from __future__ import annotations

import pytest

from ..kata_files.catalogue import Kata
from ..running import run_text
from .lookups import TO_RUN, course_of, kata_of, place_of


def pytest_report_header(config: pytest.Config) -> list[str] | None:
    """Returns the header of a run of katas if xdist workers collect the tests, since this process
    then sees no items; None otherwise."""
    workers = getattr(config.option, "dist", "no") != "no"
    paths = [
        (config.invocation_params.dir / arg.partition("::")[0]).resolve() for arg in config.args
    ]
    roots = [folder for path in paths for folder in (path, *path.parents)]
    katas = any((folder / "katas.toml").is_file() for folder in roots)
    return run_text.header(config) if workers and katas else None


def pytest_report_collectionfinish(
    config: pytest.Config, items: list[pytest.Item]
) -> list[str] | None:
    katas = [kata_of(config, item.path) for item in items]
    if not any(katas):
        return None
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and all(katas) and reporter.verbosity == 0:
        reporter.showfspath = False  # all dots in one line instead of a line per file
    return run_text.header(config)


def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(session.config, "workerinput"):
        run_text.leave_one_kata_to_read(reporter, _katas_run(reporter))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    katas = _katas_run(terminalreporter)
    if katas:
        course = course_of(terminalreporter.config, next(iter(katas)))
        run_text.write_scoreboard(terminalreporter, katas, course)


def _katas_run(reporter: pytest.TerminalReporter) -> dict[Kata, run_text.Score]:
    """Returns the scores of the katas that this run tested, in teaching order. A kata whose tests
    were all skipped is left out."""
    config = reporter.config

    def kata_of_test(nodeid: str) -> Kata | None:
        return kata_of(config, config.rootpath / nodeid.partition("::")[0])

    scores: dict[Kata, run_text.Score] = {}
    for outcome in ("passed", "failed", "error", "xfailed", "xpassed", "skipped"):
        for report in reporter.stats.get(outcome, []):
            kata = kata_of_test(report.nodeid) if isinstance(report, pytest.TestReport) else None
            if kata is not None and (kata in scores or outcome != "skipped"):
                scores.setdefault(kata, run_text.Score()).reports.append(report)
    for nodeid in config.stash[TO_RUN]:
        kata = kata_of_test(nodeid)
        if kata in scores:
            scores[kata].tests += 1
    return dict(sorted(scores.items(), key=lambda item: place_of(config, item[0])))
