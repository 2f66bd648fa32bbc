"""Runs a command that ends when the hub ends, in whatever way: `ends_with_hub COMMAND ...`.

Otherwise services of a killed hub would keep their ports, and the next hub could not start.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

DEATH_OF_PARENT = 1
"""The option of prctl that sets the signal which a process gets when its parent ends. It outlasts
`exec`."""


def main() -> None:
    hub = os.getppid()
    ctypes.CDLL(None).prctl(DEATH_OF_PARENT, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != hub:
        sys.exit("the hub has ended already")
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
