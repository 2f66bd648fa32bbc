"""Trials that run for another process: `python -m debubble.workshop.proof.trials_server FOLDER`.

It finds its request in the folder, and leaves its answer there.
"""

from __future__ import annotations

import contextlib
import pickle
import sys
from pathlib import Path

from .trials import CannotRun, run_trials
from .trials_messages import ANSWER, NOTES, REQUEST, Answer, Request
from .watchdog import Watchdog


def main(folder: Path) -> None:
    request: Request = pickle.loads((folder / REQUEST).read_bytes())
    watchdog = Watchdog(folder / NOTES, request.longest_test)
    nobody_looks_on = lambda trial: None
    try:
        trials = run_trials(request.implementations, request.device, nobody_looks_on, watchdog)
        answer = Answer(trials)
    except CannotRun as error:
        answer = Answer([], str(error))
    # Whoever waits finds the whole of it, or nothing.
    unfinished = folder / f"{ANSWER}.unfinished"
    unfinished.write_bytes(pickle.dumps(answer))
    unfinished.rename(folder / ANSWER)


if __name__ == "__main__":
    # Ctrl-C reaches whoever waits too, and is answered there.
    with contextlib.suppress(KeyboardInterrupt):
        main(Path(sys.argv[1]))
