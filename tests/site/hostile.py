"""Addresses that no reader writes by hand."""

from __future__ import annotations

import random
from urllib.parse import quote

GOOD = "repeat 7\n  matmul 1024\n  item"
MARKUP = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "</textarea><svg onload=alert(1)>",
    "javascript:alert(1)",
    "{{7*7}}${7*7}",
    "kernel # </script><script>alert(1)</script>",
)
PROGRAMS = (
    "repeat 1e9\n  kernel",
    "repeat 999999999999\n  kernel",
    "repeat 1000\n  repeat 1000\n    repeat 1000\n      kernel",
    "repeat 2000\n  kernel",
    "repeat -1\n  kernel",
    "repeat 7",
    "graph\n  item",
    "graph\n  graph\n    kernel",
    "graph\n  upload pageable 1 MiB",
    "wait nothing",
    "event __proto__",
    "constructor",
    "__proto__",
    "toString 3",
    "matmul 1000",
    "matmul",
    "upload 4 MiB",
    "upload pinned 4 GiB",
    "upload pinned 999 MiB",
    "sleep 1 toString",
    "sleep 10000 s",
    "sleep NaN ms",
    "python Infinity us",
    "kernel kernel",
    "  kernel",
    "kernel\n  kernel",
    "repeat 2\n    kernel\n  kernel",
    "\tkernel",
    "stream 9\n  kernel",
    "stream 1.5\n  kernel",
    "",
    "#",
    "\n" * 500,
    "\u202ekernel\u0000",
    "kernel\u2028kernel",
    "ｋｅｒｎｅｌ",
    "kernel\n" * 300,
    "x" * 5000,
    "repeat 2\n" + "".join(" " * n + "repeat 2\n" for n in range(1, 30)) + " " * 30 + "kernel",
    *MARKUP,
)
ADDRESSES = (
    "before=kernel",
    "after=",
    "pair=99",
    "pair=__proto__",
    "%",
    "%E0%A4%A",
    "before=%&after=%",
    "&&&===",
    "before=" + "A" * 1_000_000,
    "before=kernel&after=" + quote("kernel\n" * 2000),
    *map(quote, MARKUP),
)


def addresses(draw: random.Random, count: int) -> list[str]:
    """Returns `count` hostile ends of an address: each of the fixed ones, then mixtures."""
    fixed = [*ADDRESSES, *(both(one) for one in PROGRAMS)]
    mixed = [both(mixture(draw)) for _ in range(count - len(fixed))]
    return [f"#{end}" for end in [*fixed, *mixed]]


def both(program: str) -> str:
    return f"before={quote(program)}&after={quote(GOOD)}"


def mixture(draw: random.Random) -> str:
    """Returns a hostile program with another in it, and some letters changed."""
    first, second = draw.choice(PROGRAMS), draw.choice((*PROGRAMS, GOOD))
    place = draw.randint(0, len(first))
    letters = list(f"{first[:place]}{second}{first[place:]}" + draw.choice(("", " !", "\n?")))
    for _ in range(draw.randint(1, 6)):
        letters.insert(draw.randint(0, len(letters)), chr(draw.choice([0, 7, 35, 60, 160, 0x202E])))
    return "".join(letters)
