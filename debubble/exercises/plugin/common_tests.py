"""Adds the common checks to the tests of each kata that gives inputs for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from ..common.names import TESTS
from ..kata_files.catalogue import Kata
from .lookups import kata_of

if TYPE_CHECKING:
    from debubble.accelerator import Accelerator

    from ..common.subject import Common
    from ..running.under_test import KataCode


class KataModule(pytest.Module):
    """A kata's test file, with the common checks after its own tests."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        kata = kata_of(self.config, self.path)
        if kata is not None:
            add_common_tests(self.obj, kata)
        return super().collect()


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    """Collects a kata's test file as a KataModule."""
    if kata_of(parent.config, module_path) is None:
        return None
    return KataModule.from_parent(parent, path=module_path)


def add_common_tests(module: ModuleType, kata: Kata) -> None:
    """Adds a test to `module` for each common check that the kata does not leave out, if the module
    defines `COMMON`. A test of the same name that the module has already is kept."""
    common = getattr(module, "COMMON", None)
    if common is None:
        return
    for name, test in TESTS.items():
        if name not in kata.left_out and not hasattr(module, test):
            setattr(module, test, _test_of(name, common))


def _test_of(name: str, common: Common) -> Callable[[KataCode, Accelerator], None]:
    def test(kata: KataCode, accelerator: Accelerator) -> None:
        from ..common.checks import CHECKS

        try:
            CHECKS[name](kata, accelerator, common)
        finally:
            # What a failed check left in flight would be a race of the next test.
            accelerator.synchronize()

    return test
