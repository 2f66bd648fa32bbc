"""Requests every external page that our pages and notebooks link to, and reports those that are
gone.

scripts/ask_links.py          exit status 1 if one is gone, with the places that link to it
scripts/ask_links.py --list   only lists them, and requests none
"""

from __future__ import annotations

import re
import sys
import time
import urllib.error
import urllib.request
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PATTERNS = (
    "*.md",
    "docs/*.md",
    "katas/**/*.md",
    "solutions/**/*.md",
    "debubble/**/*.md",
    "workshop/**/*.md",
)
NOTEBOOKS = ("chapters/*.ipynb",)
LINK = re.compile(r"\]\((https?://[^)\s\"\\]+)\)")
GONE = (404, 410)
TRIES = 3


def main() -> int:
    places = links(ROOT)
    if "--list" in sys.argv[1:]:
        print("\n".join(sorted(places)))
        return 0
    with ThreadPoolExecutor(8) as several:
        answers = dict(zip(places, several.map(ask, places), strict=True))
    lost = {link: why for link, why in answers.items() if why}
    for link, why in sorted(lost.items()):
        print(f"{link}: {why}, linked from {', '.join(sorted(places[link]))}", file=sys.stderr)
    print(f"{len(places) - len(lost)} of {len(places)} links lead somewhere.")
    return int(bool(lost))


def links(root: Path) -> dict[str, set[str]]:
    """Returns the external links of our pages and notebooks, each with the files that have it."""
    found = defaultdict(set)
    for pattern in (*PATTERNS, *NOTEBOOKS):
        for path in root.glob(pattern):
            for link in LINK.findall(path.read_text(encoding="utf-8")):
                found[link].add(path.relative_to(root).as_posix())
    return dict(found)


def ask(link: str) -> str:
    """Requests a link, and returns why it is lost; "" if its page is there, or if that can't be
    known: a server that refuses programs has not lost its page."""
    why = ""
    for attempt in range(TRIES):
        request = urllib.request.Request(link, headers={"User-Agent": "debubble's links"})
        try:
            with urllib.request.urlopen(request, timeout=20):
                return ""
        except urllib.error.HTTPError as error:
            if error.code not in GONE:
                return ""
            return f"answers {error.code}"
        except (OSError, ValueError) as error:
            why = str(getattr(error, "reason", error))
            time.sleep(2**attempt)
    return why


if __name__ == "__main__":
    sys.exit(main())
