"""Reads a checkpoint's folder: its config, and the place of each tensor's bytes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

from solutions.common.host_integers import is_integer

from .fields import Fields

INDEX = "model.safetensors.index.json"
"""The file that names the file of each tensor, in a checkpoint of several files."""
SINGLE = "model.safetensors"
LARGEST_HEADER = 100 << 20
"""The most bytes of a file's header. If a file's first eight bytes announce a longer one, it is
refused as no safetensors file."""
DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
"""The dtypes of weights that this engine serves. Other types may be in a file, as long as the model
doesn't need them."""
BITS = {
    **{"BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8},
    **{"I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32},
    **{"F64": 64, "I64": 64, "U64": 64, "C64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6},
}
"""The bits of a number, for each type of the safetensors format."""


@dataclass(frozen=True)
class Stored:
    """The place of a checkpoint's tensor: its file, its type and shape, and its bytes there, from
    `begin` to before `end`."""

    name: str
    path: Path
    dtype: str
    """The name of the tensor's type in the safetensors format, such as "BF16"."""
    shape: tuple[int, ...]
    begin: int
    """The offset of the tensor's first byte in the file."""
    end: int

    @property
    def nbytes(self) -> int:
        return self.end - self.begin


@dataclass(frozen=True)
class CheckpointFolder:
    """The contents of a checkpoint's folder, as `save_pretrained` writes it: the config, and the
    place of each tensor by name."""

    path: Path
    config: Fields
    tensors: dict[str, Stored]

    @classmethod
    def read(cls, path: Path) -> CheckpointFolder:
        """Reads the config, and the header of each file of weights. Raises ValueError, which names
        the file, the tensor or the field, for anything missing or broken."""
        if not path.is_dir():
            kind = "a file" if path.exists() else "not there"
            raise ValueError(f"{path} is {kind}: give the folder of a checkpoint")
        config = Fields.of_file(path / "config.json")
        tensors: dict[str, Stored] = {}
        if (path / INDEX).exists():
            names = _files_of_index(path / INDEX)
        elif (path / SINGLE).exists():
            names = {SINGLE: None}
        else:
            raise ValueError(_no_weights(path))
        for name, expected in names.items():
            stored = read_header(path / name)
            for tensor in stored:
                if tensor.name in tensors:
                    other = tensors[tensor.name].path.name
                    raise ValueError(
                        f"tensor {tensor.name} is in {name} and in {other}: leave it in one"
                    )
                tensors[tensor.name] = tensor
            _check_index(name, expected, stored)
        return cls(path, config, tensors)

    @property
    def largest_file(self) -> int:
        """Bytes of the largest file of weights."""
        return max(path.stat().st_size for path in {each.path for each in self.tensors.values()})


def _no_weights(path: Path) -> str:
    others = sorted(each.name for each in path.glob("*.safetensors"))
    if others:
        return (
            f"{path} has {others[0]} and neither {SINGLE} nor {INDEX}: several files need an index"
        )
    pickled = sorted(each.name for each in path.glob("*.bin"))
    if pickled:
        return f"{path} has its weights in {pickled[0]}: save them with safe_serialization=True"
    return f"{path} has no weights: neither {SINGLE} nor {INDEX}"


def _files_of_index(path: Path) -> dict[str, set[str] | None]:
    """Returns the names of the tensors that the index at `path` expects in each file, by the file's
    name. Raises ValueError for a broken or empty index."""
    places = Fields.of_file(path).section("weight_map").values
    files: dict[str, set[str] | None] = {}
    for tensor, file in places.items():
        if not isinstance(file, str) or Path(file).name != file:
            raise ValueError(
                f"{path.name} has tensor {tensor} in {file!r}: it must be the name of a file"
            )
        names = files.setdefault(file, set())
        assert names is not None
        names.add(tensor)
    if not files:
        raise ValueError(f"{path.name}: weight_map is empty")
    return files


def _check_index(file: str, expected: set[str] | None, stored: Iterable[Stored]) -> None:
    if expected is None:
        return
    there = {tensor.name for tensor in stored}
    if missing := sorted(expected - there):
        raise ValueError(f"tensor {missing[0]} is not in {file}, where {INDEX} has it")


def read_header(path: Path) -> list[Stored]:
    """Returns the place of each tensor in a safetensors file. Raises ValueError for a file that is
    missing, cut off or of another format, and for a header with wrong or overlapping tensors."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(8)
            length = int.from_bytes(start, "little")
            if len(start) < 8 or not 2 <= length <= min(size - 8, LARGEST_HEADER):
                raise ValueError(
                    f"{path.name} is no safetensors file, or only the beginning of one: it has "
                    f"{size} bytes, and its header would take {length}"
                )
            header = json.loads(file.read(length))
    except FileNotFoundError:
        raise ValueError(f"{path.name} is not in {path.parent}: copy all files") from None
    except OSError as error:
        raise ValueError(f"{path.name} can't be read: {error.strerror}") from None
    except (UnicodeDecodeError, json.JSONDecodeError):
        raise ValueError(f"{path.name} has a header that is no JSON: copy it again") from None
    if not isinstance(header, dict):
        raise ValueError(f"{path.name} has a header that is no object: copy it again")
    header.pop("__metadata__", None)
    stored = [_stored(path, name, entry, 8 + length) for name, entry in header.items()]
    end = 8 + length
    for tensor in sorted(stored, key=lambda tensor: (tensor.begin, tensor.end)):
        if tensor.begin < end:
            raise ValueError(f"tensor {tensor.name} of {path.name} overlaps the one before it")
        end = tensor.end
        if end > size:
            raise ValueError(
                f"{path.name} ends at byte {size}, within tensor {tensor.name}, which ends at "
                f"{end}: it is not whole, copy it again"
            )
    return stored


def _stored(path: Path, name: str, entry: object, offset: int) -> Stored:
    try:
        dtype, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]  # type: ignore[index]  # JSON
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            f"tensor {name} of {path.name} has no dtype, shape and data_offsets"
        ) from None
    if dtype not in BITS:
        raise ValueError(f"tensor {name} of {path.name} is of {dtype!r}, which is no type")
    numbers = [*shape, begin, end] if isinstance(shape, list) else [-1]
    if not all(is_integer(number) and number >= 0 for number in numbers) or begin > end:
        raise ValueError(
            f"tensor {name} of {path.name} has shape {shape!r} at {[begin, end]}: both must be "
            "integers of at least 0"
        )
    if math.prod(shape) * BITS[dtype] != (end - begin) * 8:
        raise ValueError(
            f"tensor {name} of {path.name} is {dtype} {shape}, and takes {end - begin} bytes"
        )
    return Stored(name, path, dtype, tuple(shape), offset + begin, offset + end)
