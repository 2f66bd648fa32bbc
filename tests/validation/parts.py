"""The parts of a validation: what each runs, what it rests on, and beside what it may run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
SYSTEMS = ("pinned_h2d", "sync_free", "gdn", "flex_graph", "offload", "engine")
"""Those with a benchmark."""
TESTS: dict[str, tuple[str, ...]] = {
    "truth": ("tests/accelerators/test_effects.py", "tests/sync_free/test_sync_detector.py"),
    "accelerators": ("tests/accelerators", "tests/timeline", "tests/detector"),
    "workshop": ("tests/workshop", "tests/views", "tests/setup"),
    **{system: (f"tests/{system}",) for system in SYSTEMS},
}
"""What is tested on the GPU, by part; `truth` is what sim's rules say of a GPU, asked of one."""
DATA = {"truth": ("assets/effects",)}
RANKS = ("tests/sync_free/test_data_parallel.py", "tests/engine/test_data_parallel.py")
PROCESSES = {"tests-engine": 3, "tests-gdn": 3, "tests-flex_graph": 2, "tests-offload": 2}
"""That a part runs on at once, where it is not one; a file's tests share what its fixtures made."""
SECONDS_OF_A_TEST = 300


@dataclass(frozen=True)
class Part:
    """One command: `arguments` follow the interpreter, `device` is what it runs on."""

    name: str
    device: str
    arguments: tuple[str, ...]
    rests_on: tuple[str, ...]
    """Files and folders, and with them all that they import."""
    processes: int = 1
    """That use the device at the same time."""
    alone: bool = False
    """Whether it measures times, and so must not share the device."""

    @property
    def counts_tests(self) -> bool:
        return self.arguments[:2] == ("-m", "pytest")


def all_parts(device: str, gpus: int, benchmarks: Path, timelines: Path) -> list[Part]:
    """`device` is "cuda", or "sim" to try the validation itself where there is no GPU. With several
    GPUs only what needs them is a part: nobody wants to keep such a machine for longer."""
    if gpus > 1:
        return [Part("ranks", device, pytest(*RANKS, "--device", device), RANKS)]
    return [
        *(benchmark(system, device, benchmarks, timelines) for system in SYSTEMS),
        *(tests(name, device) for name in TESTS),
        *(katas(folder, device) for folder in _folders("katas")),
        *(chapter(path, device) for path in sorted((ROOT / "chapters").glob("*.ipynb"))),
    ]


def tests(name: str, device: str) -> Part:
    """On CUDA without what is for sim alone, and the other way round; none needs a browser."""
    part, others = f"tests-{name}", {"sim": "gpu", "cuda": "sim"}[device]
    elsewhere = (path for path in TESTS["truth"] if name != "truth")
    processes = PROCESSES.get(part, 1)
    arguments = (
        *TESTS[name],
        *(f"--ignore={path}" for path in elsewhere),
        *("-m", f"not browser and not {others}", "--device", device),
        *(("-n", str(processes), "--dist=loadfile") if processes > 1 else ()),
    )
    rests_on = (*TESTS[name], *DATA.get(name, ()))
    return Part(part, device, pytest(*arguments), rests_on, processes)


def katas(system: str, device: str) -> Part:
    """Our solutions of a system's exercises."""
    arguments = (f"katas/{system}", "--impl", "solutions", "--device", device)
    rests_on = (f"katas/{system}", "katas/katas.toml", f"solutions/{system}", "debubble/workshop")
    return Part(f"katas-{system}", device, pytest(*arguments), rests_on)


def chapter(path: Path, device: str) -> Part:
    notebook = ("-p", "no:python", "--nbval", "--nbval-current-env", "--nbval-cell-timeout=120")
    place = path.relative_to(ROOT).as_posix()
    return Part(f"chapter-{path.stem}", device, pytest(*notebook, place), (place,))


def benchmark(system: str, device: str, figures: Path, timelines: Path) -> Part:
    module = f"solutions.{system}.bench"
    arguments = ("-m", module, "--output", str(figures), "--timelines", str(timelines))
    rests_on = (f"solutions/{system}/bench.py",)
    return Part(f"benchmark-{system}", device, arguments, rests_on, alone=True)


def pytest(*arguments: str) -> tuple[str, ...]:
    limited = (f"--timeout={SECONDS_OF_A_TEST}",) if find_spec("pytest_timeout") else ()
    return ("-m", "pytest", "-p", "no:cacheprovider", *limited, *arguments)


def environment(device: str) -> dict[str, str]:
    """The checkout comes first on the path, and its plugins are known, without installing it."""
    path = filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])
    return os.environ | {
        "DEBUBBLE_DEVICE": device,
        "PYTHONPATH": os.pathsep.join(path),
        "PYTEST_PLUGINS": "debubble.workshop.plugin,debubble.detector.pytest_plugin",
    }


def _folders(name: str) -> Iterator[str]:
    for folder in sorted((ROOT / name).iterdir()):
        if folder.is_dir() and any(folder.glob("test_*.py")):
            yield folder.name
