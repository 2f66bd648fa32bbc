"""The environment of a process that runs tests for another one: it finds the same modules.

The process has one thread: if it runs beside other processes, more threads would only get in each
other's way. Threads also harm a process that forks: a lock that one of them holds stays locked in
the fork forever.
"""

from __future__ import annotations

import os
import sys

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def process_environment(**own: str) -> dict[str, str]:
    path = os.pathsep.join(folder or os.getcwd() for folder in sys.path)
    return {**os.environ, **ONE_THREAD, "PYTHONPATH": path, **own}
