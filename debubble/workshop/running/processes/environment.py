"""The environment of a process that runs tests for another one: it finds the same modules.

It has one thread: where it runs beside others, more would only stand in each other's way. And a
process that forks is better without them: a lock that one holds stays locked in the fork for good.
"""

from __future__ import annotations

import os
import sys

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def process_environment(**own: str) -> dict[str, str]:
    path = os.pathsep.join(folder or os.getcwd() for folder in sys.path)
    return {**os.environ, **ONE_THREAD, "PYTHONPATH": path, **own}
