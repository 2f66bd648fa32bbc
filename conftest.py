"""The workbook's own plugin, with its options and fixtures, which no other pytest run has.

nbval takes three seconds to be imported, so it waits until notebooks are asked for.
"""

import os
import sys

ASKED = "DEBUBBLE_NBVAL"
"""How xdist's workers, whose command line is another, know of it."""

# jsonschema, which nbformat imports, compiles 38 grammars for its format "iri", which no schema
# of notebooks has: 3 seconds of a core in each process.
sys.modules.setdefault("rfc3987_syntax", None)

pytest_plugins = ["debubble.exercises.plugin", "debubble_pytest"]
if any(argument.startswith("--nbval") for argument in sys.argv):
    os.environ[ASKED] = "1"
    # Its kernels have no reader who could commit to an answer.
    os.environ["DEBUBBLE_ANSWERS"] = "at once"
if ASKED in os.environ:
    pytest_plugins.append("nbval.plugin")


def pytest_collectstart(collector):
    """Recordings that `make site` shows lie in stored notebooks alone, and hold times."""
    if type(collector).__name__ == "IPyNbFile":
        from debubble.views.embedding import MIME

        collector.skip_compare += (MIME,)


def pytest_itemcollected(item):
    """On a busy machine a picture may take longer than nbval waits for what a cell shows: its 5
    seconds would make it another cell's output."""
    if type(item).__name__ == "IPyNbCell":
        item.output_timeout = 60
