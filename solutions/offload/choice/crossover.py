"""The table of which path is the fastest: measured once on a GPU, and stored as data."""

from __future__ import annotations

import json
import math
import os
import reprlib
import warnings
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import platformdirs

from debubble.accelerator import Accelerator
from debubble.assets import slug

PATH_WORDS = {"dma": "DMA batch", "kernel": "kernel in place"}
"""The paths, with the name that readers see. The kernel reads its descriptors in place, in pinned
memory: uploading the list first was slower for all sizes and numbers of pieces on an H200 and an
H100."""
PATHS = tuple(PATH_WORDS)
SHIPPED = Path(__file__).with_name("crossovers")
DEFAULT_GPU = "NVIDIA H200"
"""The GPU whose crossover is used on sim, and on a GPU that was never calibrated."""
LONGEST_US = 1e15
"""The longest time of one copy that a file may contain, in microseconds: 30 years. A longer time
might be too large for Python's floats."""
LARGEST = 2**63 - 1
"""The largest number that a file may contain as bytes of a piece, or as pieces of a copy."""
MEASURE = "debubble calibrate --only crossover"


@dataclass(frozen=True, eq=False)
class Crossover:
    """A table of how long one copy from pinned host memory to the GPU takes by each path, for each
    size and number of pieces: wall times, submission included."""

    gpu: str
    sizes: Sequence[int]
    """[S] bytes per piece for which times were measured, increasing."""
    counts: Sequence[int]
    """[C] numbers of pieces for which times were measured, increasing."""
    times_us: Mapping[str, Sequence[Sequence[float]]]
    """[S][C] microseconds of one copy by each path in PATHS, by the path's name."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of torch and triton with which the times were measured."""
    date: str = ""

    def __post_init__(self) -> None:
        """Raises ValueError, with what is wrong, unless sizes and counts increase, each path has S
        rows of C possible times, and all other fields have the right types."""
        _check_increasing("sizes", self.sizes)
        _check_increasing("counts", self.counts)
        if not isinstance(self.times_us, Mapping) or set(self.times_us) != set(PATHS):
            raise ValueError(f"times_us has to have {_listed(PATHS)}, not {_keys(self.times_us)}")
        for path, rows in self.times_us.items():
            _check_times(path, rows, len(self.sizes), len(self.counts))
        for name in ("gpu", "date"):
            if not isinstance(getattr(self, name), str):
                raise ValueError(f"{name} has to be text, not {getattr(self, name)!r}")
        if not isinstance(self.versions, Mapping):
            raise ValueError(f"versions has to be an object, not {self.versions!r}")

    def best(self, nbytes: float, count: int) -> str:
        """Returns the path that copies `count` pieces of `nbytes` bytes on average fastest."""
        place = self._place_of(nbytes, count)
        return min(PATHS, key=lambda path: self._log_time_at(path, place))

    def time_us(self, path: str, nbytes: float, count: float) -> float:
        """Returns the microseconds of a copy, interpolated between measurements as a plane over
        logarithms. Below the measured range the time is that of the smallest copy, since the call
        costs it; above it the bandwidth is that of the largest copy."""
        within = 2.0 ** self._log_time_at(path, self._place_of(nbytes, count))
        return within * max(1.0, nbytes / self.sizes[-1]) * max(1.0, count / self.counts[-1])

    def save(self, path: Path) -> None:
        """Writes the table to `path` as JSON, as a whole or not at all, since another process may
        be reading the file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}")
        unfinished.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")
        unfinished.replace(path)

    @classmethod
    def load(cls, path: Path) -> Crossover:
        """Returns the crossover in a file. Raises ValueError with the file's name and what is wrong
        with it, and OSError if it can't be read."""
        try:
            record = json.loads(path.read_text(encoding="utf-8"), parse_constant=_not_a_number)
            return cls(**_check_names(record))
        except (ValueError, TypeError, RecursionError) as error:
            raise ValueError(f"{path} is no crossover: {error}") from error

    @classmethod
    def for_accelerator(cls, accelerator: Accelerator) -> Crossover:
        """Returns the crossover for this accelerator. Sim uses the shipped one, whatever was
        calibrated on this machine, so that it is the same everywhere."""
        if accelerator.modelled:
            return cls.load(_shipped(DEFAULT_GPU))
        return cls.for_gpu(accelerator.description)

    @classmethod
    def for_gpu(cls, gpu: str) -> Crossover:
        """Returns the crossover for a GPU of this name: the user's own measurement, else the
        shipped one, else that of DEFAULT_GPU, since every path copies correctly on every GPU. Warns
        once about each file of this GPU that can't be used."""
        crossover, unusable = cls._find(gpu)
        for reason in unusable:
            _warn_once(f"{reason}; it is ignored, and `{MEASURE}` measures a new one")
        return crossover

    @classmethod
    def _find(cls, gpu: str) -> tuple[Crossover, list[str]]:
        """Returns (the crossover to use on this GPU, a reason for each of its files that can't be
        used)."""
        unusable: list[str] = []
        for path in (cache_path(gpu), _shipped(gpu)):
            try:
                return cls._load_for(gpu, path), unusable
            except (FileNotFoundError, NotADirectoryError):
                continue
            except (ValueError, OSError) as error:
                unusable.append(str(error))
        return cls.load(_shipped(DEFAULT_GPU)), unusable

    @classmethod
    def _load_for(cls, gpu: str, path: Path) -> Crossover:
        crossover = cls.load(path)
        if crossover.gpu != gpu:
            raise ValueError(f"{path} was measured on {crossover.gpu}, and this is {gpu}")
        return crossover

    def _place_of(self, nbytes: float, count: float) -> tuple[int, float, int, float]:
        row, down = _between(self._log_sizes, nbytes)
        column, right = _between(self._log_counts, count)
        return row, down, column, right

    def _log_time_at(self, path: str, place: tuple[int, float, int, float]) -> float:
        row, down, column, right = place
        upper, lower = self._log_times[path][row : row + 2]
        above = upper[column] + right * (upper[column + 1] - upper[column])
        below = lower[column] + right * (lower[column + 1] - lower[column])
        return above + down * (below - above)

    @cached_property
    def _log_sizes(self) -> list[float]:
        return [math.log2(nbytes) for nbytes in self.sizes]

    @cached_property
    def _log_counts(self) -> list[float]:
        return [math.log2(count) for count in self.counts]

    @cached_property
    def _log_times(self) -> dict[str, list[list[float]]]:
        """Logarithms of the times of each path, [S + 1][C + 1]: the last row and column are
        repeated, so that the last entries have neighbours."""
        tables = {}
        for path, rows in self.times_us.items():
            table = [[math.log2(time) for time in (*row, row[-1])] for row in rows]
            tables[path] = [*table, table[-1]]
        return tables


def used_for(gpu: str) -> str:
    """Returns a sentence for `debubble doctor` that says whose crossover is used on a GPU."""
    crossover, unusable = Crossover._find(gpu)
    if crossover.gpu == gpu:
        words = "measured on this GPU"
    else:
        words = f"not measured on this GPU: {crossover.gpu}'s is used, `{MEASURE}` measures it"
    return "; ".join([words, *(f"ignored: {reason}" for reason in unusable)])


def cache_path(gpu: str) -> Path:
    """Returns the file in which `debubble calibrate` stores the measurements of a GPU."""
    return platformdirs.user_cache_path("debubble") / "crossover" / f"{slug(gpu)}.json"


def _shipped(gpu: str) -> Path:
    return SHIPPED / f"{slug(gpu)}.json"


def _between(logs: list[float], value: float) -> tuple[int, float]:
    """Returns (index of the last entry of `logs` that is at most log2(value), how far log2(value)
    is towards the next entry: 0 to 1). Values outside the entries count as the first or the last
    one."""
    log = math.log2(value) if value > 0 else logs[0]
    if log <= logs[0]:
        return 0, 0.0
    if log >= logs[-1]:
        return len(logs) - 1, 0.0
    index = bisect_right(logs, log) - 1
    return index, (log - logs[index]) / (logs[index + 1] - logs[index])


def _check_names(record: Any) -> dict[str, Any]:
    names = [entry.name for entry in fields(Crossover)]
    if not isinstance(record, dict) or set(record) != set(names):
        raise ValueError(f"it has to have {_listed(names)}, not {_keys(record)}")
    return record


def _check_increasing(name: str, numbers: Any) -> None:
    if (
        not _is_list(numbers)
        or not numbers
        or not all(type(number) is int and 0 < number <= LARGEST for number in numbers)
        or any(left >= right for left, right in pairwise(numbers))
    ):
        raise ValueError(
            f"{name} has to be a list of whole numbers below 2**63, each larger than the last"
        )


def _check_times(path: str, rows: Any, num_sizes: int, num_counts: int) -> None:
    shape = f"times_us of {path!r} has to be {num_sizes} lists of {num_counts} times"
    if not _is_list(rows) or len(rows) != num_sizes:
        raise ValueError(shape)
    for row in rows:
        if not _is_list(row) or len(row) != num_counts:
            raise ValueError(shape)
        for time in row:
            if type(time) not in (int, float) or not 0 < time <= LONGEST_US:
                raise ValueError(f"times_us of {path!r} has {reprlib.repr(time)}, which is no time")


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _keys(value: Any) -> str:
    return _listed(value) if isinstance(value, Mapping) else f"a {type(value).__name__}"


def _listed(names: Any) -> str:
    return ", ".join(map(str, names)) or "nothing"


def _not_a_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no time")


@cache
def _warn_once(sentence: str) -> None:
    """Shows `sentence` as a warning, once in this process. Python by itself would repeat a warning
    whenever its filters have changed in between."""
    warnings.warn(sentence, stacklevel=3)
