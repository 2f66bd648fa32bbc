"""The parts of a validation: what each runs, and which parts may run side by side."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
SYSTEMS = ("pinned_h2d", "sync_free", "gdn", "flex_graph", "offload", "host_bound", "engine")
"""The systems with a benchmark."""
MEASURED = {
    "models": "solutions.models.measure.two_shapes",
    "engine_pairs": "solutions.engine.measure.pairs",
    "engine_prefill_graphs": "solutions.engine.measure.prefill_graphs",
}
"""Other measurements that write figures and no recordings: the module, by the part's name without
"benchmark-"."""
TRUTH = (
    "tests/accelerators/test_effects.py",
    "tests/sync_free/test_sync_detector.py",
    "tests/setup/test_calibrate.py",
)
"""The tests of sim's claims about a GPU. They are the part "tests-truth", and run on a GPU."""
TESTS: dict[str, tuple[str, ...]] = {
    "truth": TRUTH,
    "accelerators": (
        "tests/accelerators",
        "tests/as_cuda",
        "tests/timeline",
        "tests/detector",
        "tests/wrong_arguments",
        "tests/test_gate.py",
    ),
    "exercises": ("tests/exercises", "tests/views", "tests/workshop"),
    "guards": ("tests/controls",),
    **{system: (f"tests/{system}",) for system in SYSTEMS},
    "sync_free": ("tests/sync_free", "tests/common"),
    "engine": ("tests/engine", "tests/models"),
}
"""The files and folders of tests that each part runs, by the part's name without "tests-"."""
RANKS = ("tests/sync_free/test_data_parallel.py", "tests/engine/test_data_parallel.py")
PROCESSES = {
    "tests-accelerators": 2,
    "tests-exercises": 4,
    "tests-pinned_h2d": 3,
    "tests-sync_free": 2,
    "tests-gdn": 4,
    "tests-flex_graph": 4,
    "tests-engine": 3,
}
"""The number of pytest processes of a part, if it is not 1. Tests of one file run in one process,
and share what its fixtures made."""
NOTHING_SHARED = ("tests-pinned_h2d", "tests-exercises")
"""Parts whose longest file has many tests that share no fixtures, so its tests are spread over the
processes."""
OTHERS = {"sim": "gpu", "cuda": "sim"}
"""The marker of tests that this device can't run, by device."""
SECONDS_OF_A_TEST = 300


@dataclass(frozen=True)
class Part:
    """A command of the validation: Python runs with `arguments`, on the accelerator `device`."""

    name: str
    device: str
    arguments: tuple[str, ...]
    processes: int = 1
    """Number of processes of the part that use the device at the same time."""
    alone: bool = False
    """True if the part must not share the device, since it measures times or takes much memory."""

    @property
    def counts_tests(self) -> bool:
        return self.arguments[:2] == ("-m", "pytest")

    @property
    def measures(self) -> bool:
        return self.name.startswith("benchmark-")


def all_parts(device: str, gpus: int, benchmarks: Path, timelines: Path) -> list[Part]:
    """Returns all parts of a validation with `gpus` GPUs; with several GPUs that is only the tests
    of ranks. `device` is "cuda", or "sim" to try the validation itself without a GPU. Benchmarks
    write to the two folders."""
    if gpus > 1:
        ranks = pytest(*RANKS, "--device", device)
        return [Part("ranks", device, ranks)]
    return [
        *(tests(name, device) for name in TESTS),
        tests_of_much_memory(device),
        operators(device, benchmarks.parents[1] / "effects" / f"{benchmarks.name}-operators.json"),
        accuracy(device, benchmarks.parents[1] / "accuracy" / f"{benchmarks.name}.json"),
        traces(device, benchmarks.parents[1] / "traces" / f"{benchmarks.name}.json"),
        *(katas(folder, device) for folder in _folders("katas")),
        *(chapter(path, device) for path in sorted((ROOT / "tests/chapters").glob("*.ipynb"))),
        *(benchmark(system, device, benchmarks, timelines) for system in SYSTEMS),
        *(measurement(name, device, benchmarks) for name in MEASURED),
    ]


def left_out(device: str) -> tuple[str, ...]:
    """Returns the markers of the tests that no part on `device` runs: those in a browser, and those
    for the other device."""
    return "browser", OTHERS[device]


def tests(name: str, device: str) -> Part:
    """Returns the part "tests-<name>" with the tests of TESTS[name], without those with a marker of
    `left_out` or that need much memory. It has as many processes as PROCESSES says, else one; one
    too if pytest-xdist is missing."""
    part = f"tests-{name}"
    elsewhere = TRUTH if name != "truth" else ()
    processes = PROCESSES.get(part, 1) if find_spec("xdist") else 1
    dist = "worksteal" if part in NOTHING_SHARED else "loadfile"
    marks = ("gpu_memory", *left_out(device))
    arguments = (
        *TESTS[name],
        *(f"--ignore={path}" for path in elsewhere),
        *("-m", " and ".join(f"not {mark}" for mark in marks), "--device", device),
        "--deep",
        *(("-n", str(processes), f"--dist={dist}") if processes > 1 else ()),
    )
    return Part(part, device, pytest(*arguments), processes)


def tests_of_much_memory(device: str) -> Part:
    """Returns the part with the tests of all folders that declare much GPU memory. It runs alone,
    one test after another."""
    files = (
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("test_*.py")
        if "mark.gpu_memory" in path.read_text(encoding="utf-8")
    )
    places = tuple(sorted(files))
    arguments = (
        *places,
        "-m",
        f"gpu_memory and not {OTHERS[device]}",
        "--device",
        device,
        "--deep",
    )
    return Part("tests-much_memory", device, pytest(*arguments), alone=True)


def operators(device: str, counts: Path) -> Part:
    """Returns the part that counts waits and copies of each operator of PyTorch's database, and
    writes them to the file `counts`."""
    command = ("-m", "tests.accelerators.operators", "--device", device, "--output", str(counts))
    return Part("operators", device, (*command, "--processes", "6"), processes=6)


def accuracy(device: str, steps: Path) -> Part:
    """Returns the part that measures the steps with which sim's times are compared, and writes them
    to the file `steps`."""
    command = ("-m", "tests.outside.accuracy", "--measure", str(steps))
    return Part("accuracy", device, command, alone=True)


def traces(device: str, report: Path) -> Part:
    """Returns the part that makes traces by torch.profiler, and writes how far they are from our
    recordings, and what they say of other people's programs, to the file `report`."""
    return Part("traces", device, ("-m", "tests.outside.traces.judge", str(report)), alone=True)


def katas(system: str, device: str) -> Part:
    """Returns the part that runs the katas of a system on our solutions, not on the stubs."""
    arguments = (f"katas/{system}", "--impl", "solutions", "--device", device)
    return Part(f"katas-{system}", device, pytest(*arguments))


def chapter(path: Path, device: str) -> Part:
    """Returns the part that runs a chapter with nbval. `path` is its reference, which has the
    expected outputs; the reader's notebook has the same cells."""
    notebook = ("-p", "no:python", "--nbval", "--nbval-current-env", "--nbval-cell-timeout=120")
    place = path.relative_to(ROOT).as_posix()
    return Part(f"chapter-{path.stem}", device, pytest(*notebook, place))


def benchmark(system: str, device: str, figures: Path, timelines: Path) -> Part:
    folders = ("--output", str(figures), "--timelines", str(timelines))
    arguments = ("-m", f"solutions.{system}.bench", *folders)
    return Part(f"benchmark-{system}", device, arguments, alone=True)


def measurement(name: str, device: str, figures: Path) -> Part:
    """Returns the part "benchmark-<name>" that runs the module MEASURED[name]."""
    arguments = ("-m", MEASURED[name], "--output", str(figures))
    return Part(f"benchmark-{name}", device, arguments, alone=True)


def pytest(*arguments: str) -> tuple[str, ...]:
    limited = (f"--timeout={SECONDS_OF_A_TEST}",) if find_spec("pytest_timeout") else ()
    return ("-m", "pytest", "-p", "no:cacheprovider", *limited, *arguments)


def environment(device: str) -> dict[str, str]:
    """Returns environment variables for a part: the checkout comes first on Python's path, and its
    pytest plugins load without an installation."""
    path = filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])
    return os.environ | {
        "DEBUBBLE_DEVICE": device,
        "PYTHONPATH": os.pathsep.join(path),
        "PYTEST_PLUGINS": "debubble.exercises.plugin,debubble_pytest",
    }


def _folders(name: str) -> Iterator[str]:
    for folder in sorted((ROOT / name).iterdir()):
        if folder.is_dir() and any(folder.glob("test_*.py")):
            yield folder.name
