"""The list of names: one on each line, `#` begins a comment. A learner logs in with theirs."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

from .refusal import Refusal

MOST_LETTERS = 32
TEACHER = "teacher"


def read_names(path: Path, *, host_users: bool = False) -> list[str]:
    """Returns the names by which learners log in, in the list's order; with `host_users` they are
    the names of users of the host. Raises Refusal if the list can't be read or has no names, if two
    are the same, or if one has no letter or is the teacher's."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except FileNotFoundError:
        raise Refusal(f"{path} is not there: write a name on each of its lines") from None
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal(f"{path} can't be read ({error}): save it as plain text in UTF-8") from None
    found: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        written = line.partition("#")[0].strip()
        if not written:
            continue
        name = written if host_users else login_name(written)
        if not name:
            raise Refusal(f"{path}, line {number}: {written!r} has no letter of a to z in it")
        if name == TEACHER:
            raise Refusal(f"{path}, line {number}: {TEACHER!r} is the teacher: name a learner")
        if name in found:
            raise Refusal(
                f"{path}, lines {found[name]} and {number}: both are {name!r} to log in by: tell "
                "them apart by another letter"
            )
        found[name] = number
    if not found:
        raise Refusal(f"{path} has no names: write one on each line")
    return list(found)


def login_name(written: str) -> str:
    """Returns the login name for a name as it was written: `zoe-van-dyk` for `Zoë van Dyk`, in
    lower case without accents and spaces; "" if no letter is left."""
    plain = unicodedata.normalize("NFKD", written).encode("ascii", "ignore").decode().lower()
    joined = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:MOST_LETTERS].strip("-")
    return joined if re.search("[a-z]", joined) else ""
