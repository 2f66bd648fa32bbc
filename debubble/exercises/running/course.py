"""Chooses the katas that a run goes through: up to the first unsolved one, unless more was
requested."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property

import pytest

from ..kata_files.catalogue import Catalogue, Kata
from ..kata_files.workspace import Workspace
from .under_test import Implementations


class Course:
    """The katas of one workbook in one run of pytest: which of them were requested, which run, and
    which tests of each."""

    def __init__(self, config: pytest.Config, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.workspace = Workspace(catalogue.root)
        self.tests: Counter[Kata] = Counter()
        """The number of collected tests of each kata."""
        self.failed: Kata | None = None
        """The first kata with a failing test."""
        self.mine = config.getoption("impl", "learner") == "learner" and not any(
            isinstance(found, Implementations) for found in config.pluginmanager.get_plugins()
        )
        """True if the run tests the learner's code."""
        self.goes_on = config.getoption("all_katas", False)
        chosen = any(config.getoption(name, None) for name in ("keyword", "markexpr"))
        self.is_chosen = chosen
        """True if a keyword or marker expression selects single tests."""
        self.is_limited = self.mine and not chosen and not config.getoption("collectonly", False)
        self.is_alone = getattr(config.option, "dist", "no") == "no"
        """True if this process runs all tests, without xdist workers."""
        arguments = [arg.partition("::") for arg in config.args]
        here = config.invocation_params.dir
        paths = [(here / path).resolve() for path, _, _ in arguments]
        self.parts = {path for path, (_, of, _) in zip(paths, arguments, strict=True) if of}
        """Files of which single tests were requested."""
        self.files = {path for path in paths if path.is_file()}
        self.folders = [path for path in paths if path.is_dir()]

    @property
    def is_whole(self) -> bool:
        """True if all katas were requested."""
        folder = self.catalogue.root / "katas"
        return any(folder.is_relative_to(path) for path in self.folders)

    def is_named(self, kata: Kata) -> bool:
        """True if the kata's test file was requested by its path: then it runs in any case."""
        return kata.test_path in self.files

    @cached_property
    def asked_for(self) -> Sequence[Kata]:
        """The requested katas in teaching order, without those whose tests are gone: such a kata
        must not stop the run."""
        inside = lambda kata: any(kata.test_path.is_relative_to(path) for path in self.folders)
        there = [kata for kata in self.catalogue.katas if kata.test_path.is_file()]
        return [kata for kata in there if self.is_named(kata) or inside(kata)]

    @cached_property
    def untouched(self) -> Sequence[Kata]:
        """The requested katas that the learner has not begun, without those requested by their
        file."""
        others = (kata for kata in self.asked_for if not self.is_named(kata))
        return [kata for kata in others if self.workspace.is_untouched(kata)]

    @property
    def first_untouched(self) -> Kata | None:
        """The first of them that is not optional."""
        return next((kata for kata in self.untouched if not kata.optional), None)

    def is_theirs(self, kata: Kata) -> bool:
        """True if the run tests the learner's code and they have changed the kata's file."""
        return self.mine and not self.workspace.is_untouched(kata)

    def leaves_out(self, kata: Kata) -> bool:
        """True if this run of the learner's code skips the kata, because it comes after the first
        requested kata that they have not begun, because another kata has failed, or because it is
        optional and not begun. False with
        `--all`, and for a kata requested by its file."""
        if not self.is_limited or self.goes_on or self.is_named(kata):
            return False
        if kata.optional and self.workspace.is_untouched(kata):
            return True
        if self.is_alone and self.failed not in (None, kata):
            return True
        return kata in self.asked_for and self._behind_the_first(kata)

    def is_shortened(self, kata: Kata) -> bool:
        """True if only one test of the kata runs, because the learner has not begun it: with
        `--all`, each such kata but the first one. One failing test shows that it is not solved."""
        others = kata in self.untouched and kata != self.first_untouched
        return self.is_limited and self.goes_on and others

    def is_tested_whole(self, kata: Kata, tests: int) -> bool:
        """True if a run of `tests` tests covers all tests of the kata."""
        if kata.test_path in self.parts or self.is_chosen:
            return False
        return tests == self.tests[kata] or not self.is_alone

    def wanted(self, items: Sequence[tuple[pytest.Item, Kata | None]]) -> Iterator[pytest.Item]:
        """Yields the tests to run; of a shortened kata only the first test that the stub is meant
        to fail."""
        taken: set[Kata] = set()
        for item, kata in items:
            if kata is None or not self.is_shortened(kata):
                yield item
            elif kata not in taken and getattr(item, "originalname", "") in kata.stub_fails:
                taken.add(kata)
                yield item

    def _behind_the_first(self, kata: Kata) -> bool:
        first, order = self.first_untouched, self.catalogue.katas
        return first is not None and order.index(kata) > order.index(first)
