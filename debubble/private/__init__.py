"""The one door to private names of other packages. Its modules `torch`, `triton` and `pytest` bind
the names that debubble uses; no other file uses one (tests/setup/test_private_names.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from operator import attrgetter
from typing import Any, NoReturn


class Missing:
    """Takes the place of a private name that the installed version lacks, and is false. Every other
    use raises an error of one sentence, so that only the feature that needs the name is refused."""

    def __init__(self, error: Callable[[], Exception]) -> None:
        vars(self)["error"] = error

    def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
        raise vars(self)["error"]()

    __call__ = __setattr__ = __mro_entries__ = __contains__ = __iter__ = _refuse

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # Python and `inspect` read these of any object.
            raise AttributeError(name)
        self._refuse()

    def __bool__(self) -> bool:
        return False


class Place:
    """A private attribute of a module or class that debubble reads as it is now, or replaces."""

    def __init__(self, owner: object, name: str) -> None:
        self._owner, self._name = owner, name

    @property
    def value(self) -> Any:
        return getattr(self._owner, self._name)

    @value.setter
    def value(self, value: object) -> None:
        setattr(self._owner, self._name, value)


@dataclass(frozen=True)
class Names:
    """The private names of one package, which were `seen` in these versions and are looked up in
    the installed one. A path is "module:name.of.object"."""

    package: str
    installed: str
    seen: str
    refuse: Callable[[str], Exception]
    """Makes the error from the end of the sentence "debubble needs ..."."""

    def bind(self, path: str, seen: str = "") -> Any:
        """Returns the object at `path`, or Missing. Pass `seen` if it is not in all versions."""
        module, _, name = path.partition(":")
        try:
            return attrgetter(name)(import_module(module))
        except (ImportError, AttributeError):
            return Missing(lambda: self._lacks(path.replace(":", "."), seen or self.seen))

    def getter(self, path: str) -> Any:
        """Returns a function that gets this attribute of any object, or Missing if the example at
        `path` lacks it."""
        found = self.bind(path)
        return found if isinstance(found, Missing) else attrgetter(path.rpartition(".")[2])

    def place(self, path: str) -> Any:
        """Returns the Place of the attribute at `path`, or Missing."""
        found = self.bind(path)
        module, _, names = path.partition(":")
        owner, _, name = names.rpartition(".")
        if isinstance(found, Missing):
            return found
        of = import_module(module)
        return Place(attrgetter(owner)(of) if owner else of, name)

    def _lacks(self, name: str, seen: str) -> Exception:
        return self.refuse(
            f"the private name {name} of {self.package} {seen}, which {self.installed} lacks: use "
            "one of these versions, in an environment of its own"
        )
