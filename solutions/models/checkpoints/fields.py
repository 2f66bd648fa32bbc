"""Reads a checkpoint's config field by field. Errors name the field that is missing or wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast


class Fields:
    """A JSON object of a file. Its methods raise ValueError, naming file and field, for a field
    that is missing or of another type."""

    def __init__(self, values: Mapping[str, object], source: str) -> None:
        self.values, self.source = values, source

    @classmethod
    def of_file(cls, path: Path) -> Fields:
        """Reads the JSON object in the file `path`. Raises ValueError for a file that is missing,
        can't be read, or has no JSON object."""
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ValueError(
                f"{path.parent} has no {path.name}: give the folder of a checkpoint, as Hugging "
                "Face's `save_pretrained` writes it"
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} can't be read: {error}") from None
        except json.JSONDecodeError as error:
            raise ValueError(f"{path} is no JSON, at line {error.lineno}: copy it again") from None
        if not isinstance(values, dict):
            raise ValueError(f"{path} holds a {type(values).__name__}: it must be an object")
        return cls(values, path.name)

    def section(self, name: str) -> Fields:
        """Returns the object in the field `name`."""
        value = self._value(name)
        if not isinstance(value, dict):
            raise self.wrong(name, "an object")
        return Fields(value, f"{self.source}, {name}")

    def with_defaults(self, defaults: Mapping[str, object]) -> Fields:
        """Returns the same object, with the value of `defaults` for each name that it leaves out. A
        field that is null stays null."""
        return Fields({**defaults, **self.values}, self.source)

    def has(self, name: str) -> bool:
        """Returns True if the field is there and not null."""
        return self.values.get(name) is not None

    def count(self, name: str, default: int | None = None, least: int = 1) -> int:
        """Returns the field `name`, an integer of at least `least`. Returns `default` if the field
        is absent or null."""
        value = self._value(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self.wrong(name, f"an integer of at least {least}")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """Returns the field `name`, a finite number above 0. Returns `default` if the field is
        absent or null."""
        value = self._value(name, default)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 < cast(float, value) < float("inf"):
            raise self.wrong(name, "a number above 0")
        return float(cast(float, value))

    def flag(self, name: str, default: bool) -> bool:
        value = self._value(name, default)
        if not isinstance(value, bool):
            raise self.wrong(name, "true or false")
        return value

    def text(self, name: str, default: str | None = None) -> str:
        value = self._value(name, default)
        if not isinstance(value, str):
            raise self.wrong(name, "a text")
        return value

    def texts(self, name: str, length: int) -> list[str]:
        """Returns the field `name`, a list of `length` strings, one for each layer."""
        value = self._value(name)
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self.wrong(name, "a list of texts")
        if len(value) != length:
            raise ValueError(f"{self.source}: {name} has {len(value)} entries for {length} layers")
        return list(value)

    def expect_all(self, served: Mapping[str, Sequence[object]]) -> None:
        """Raises ValueError unless each field is absent, null, or one of its values in `served`."""
        for name, allowed in served.items():
            self.expect(name, allowed)

    def expect(self, name: str, allowed: Sequence[object]) -> None:
        """Raises ValueError unless the field is absent, null, or one of the `allowed` values, which
        are all that this engine serves."""
        value = self.values.get(name)
        if value is not None and value not in allowed:
            choices = " or ".join(json.dumps(each) for each in allowed) or "left out"
            raise ValueError(
                f"{self.source}: {name} is {json.dumps(value)[:80]}: this engine serves {choices}"
            )

    def wrong(self, name: str, kind: str) -> ValueError:
        """Returns a ValueError that names the field and its value, and says that it must be
        `kind`."""
        shown = json.dumps(self.values.get(name))[:80]
        return ValueError(f"{self.source}: {name} is {shown}: it must be {kind}")

    def _value(self, name: str, default: object = None) -> object:
        value = self.values.get(name)
        if value is None:
            value = default
        if value is None:
            raise ValueError(f"{self.source} has no {name}")
        return value
