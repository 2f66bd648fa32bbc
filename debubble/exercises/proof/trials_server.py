"""Runs trials for another process: `python -m debubble.exercises.proof.trials_server FOLDER`.

It reads its request from the folder, and writes its answer there.
"""

from __future__ import annotations

import contextlib
import pickle
import sys
from pathlib import Path

from .trials import CannotRun, run_trials
from .trials_messages import ANSWER, NOTES, REQUEST, Answer, TrialRequest
from .watchdog import Watchdog


def main(folder: Path) -> None:
    request: TrialRequest = pickle.loads((folder / REQUEST).read_bytes())
    watchdog = Watchdog(folder / NOTES, request.longest_test)
    nobody_looks_on = lambda trial: None
    try:
        trials = run_trials(request.implementations, request.device, nobody_looks_on, watchdog)
        answer = Answer(trials)
    except CannotRun as error:
        answer = Answer([], str(error))
    # The rename is atomic: the waiting process finds the whole answer, or none.
    unfinished = folder / f"{ANSWER}.unfinished"
    unfinished.write_bytes(pickle.dumps(answer))
    unfinished.rename(folder / ANSWER)


if __name__ == "__main__":
    # Ctrl-C reaches the waiting process too, and is answered there.
    with contextlib.suppress(KeyboardInterrupt):
        main(Path(sys.argv[1]))
