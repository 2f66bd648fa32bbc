"""Makes `progress.jsonl` smaller: the lines that a learner misses least are removed first."""

from __future__ import annotations

from .events import HEADER, parsed_line, version_of


def thinned(content: bytes, new: bytes, most: int, room: int) -> bytes:
    """Returns a file with the lines of `content`, then those of `new`. If that is larger than
    `most` bytes, it is cut to `room`: the oldest attempts are removed first, except the last
    attempt of each kata and the last that solved it; then the oldest of all other lines."""
    lines = [
        line + b"\n"
        for line in (content + b"\n" + new).split(b"\n")
        if line.strip() and version_of(line) is None
    ]
    size = len(HEADER) + sum(map(len, lines))
    gone = set()
    for number in _from_the_least_missed_on(lines) if size > most else ():
        if size <= room:
            break
        gone.add(number)
        size -= len(lines[number])
    return HEADER + b"".join(line for number, line in enumerate(lines) if number not in gone)


def _from_the_least_missed_on(lines: list[bytes]) -> list[int]:
    events = [parsed_line(line) for line in lines]
    attempts = [n for n, event in enumerate(events) if event.get("kind") == "attempt"]
    last = {str(events[n].get("kata")): n for n in attempts}
    passed = [n for n in attempts if events[n].get("verdict") == "passed"]
    dear = {*last.values(), *{str(events[n].get("kata")): n for n in passed}.values()}
    others = [n for n in range(len(lines)) if n not in dear and n not in set(attempts)]
    return [*(n for n in attempts if n not in dear), *others, *sorted(dear)]
