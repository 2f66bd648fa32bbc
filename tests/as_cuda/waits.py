"""Reads the expected waits from the comments of a script in `scripts/`."""

import re
from collections import Counter
from pathlib import Path

EXPECTED = re.compile(
    r"# waits(?P<nowhere> without a line)?: (?P<what>[a-z ]+?)(?: x(?P<times>\d+))?$"
)


def expected(script: Path, modelled: bool) -> Counter:
    """Returns {(line, cause): number of waits}, read from the `# waits` comments of the script. On
    a GPU (not `modelled`) some of these waits have the line None."""
    waits: Counter = Counter()
    for number, line in enumerate(script.read_text().splitlines(), 1):
        if found := EXPECTED.search(line):
            place = None if found["nowhere"] and not modelled else number
            waits[place, found["what"]] += int(found["times"] or 1)
    return waits
