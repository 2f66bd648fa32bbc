"""The workbook's own plugin, with its options and fixtures: nobody else's pytest has them.

nbval takes three seconds to be imported, so it waits until notebooks are asked for.
"""

import os
import sys

ASKED = "DEBUBBLE_NBVAL"
"""How xdist's workers, whose command line is another, know of it."""

pytest_plugins = ["debubble.workshop.plugin", "debubble_pytest"]
if any(argument.startswith("--nbval") for argument in sys.argv):
    os.environ[ASKED] = "1"
    # Its kernels have no reader who could commit to an answer.
    os.environ["DEBUBBLE_ANSWERS"] = "at once"
if ASKED in os.environ:
    pytest_plugins.append("nbval.plugin")
