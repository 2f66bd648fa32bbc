"""The packages of an environment: the pins of an extra with their hashes, and the torch that fits.

pins/EXTRA.txt lists all packages that `.[lab]` and the like need, on every platform. Torch's wheel
for the CPU is not PyPI's, and so has other hashes: it is installed by its version alone, and PyPI's
NVIDIA libraries are left out.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from failure import Failure

EXTRAS = ("lab", "test", "hub")
CPU_INDEX = os.environ.get("DEBUBBLE_CPU_INDEX", "https://download.pytorch.org/whl/cpu")
ONLY_FOR_CUDA = re.compile(r"(nvidia|cuda)-")
SIZES = {"cpu": ("0.5 GB", "1.9 GB"), "cuda": ("3.2 GB", "8 GB")}
"""The size of the downloads with an empty cache, and the size on disk, by kind of torch, for `lab`
on Linux x86-64."""
DRIVER = ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/usr/lib/wsl/lib/nvidia-smi")


@dataclass(frozen=True)
class Torch:
    kind: str
    """ "cpu" or "cuda"."""
    why: str
    is_asked_for: bool = False


@dataclass(frozen=True)
class Pin:
    name: str
    version: str
    text: str
    """The pin with its marker and hashes, as pip and uv read it."""


def choose_torch(asked: str) -> Torch:
    """Returns which torch to install: the one that `asked`, the value of TORCH, names, or else the
    one for CUDA on Linux with an NVIDIA driver, and otherwise the one for the CPU. Raises Failure
    for an unknown value."""
    if asked not in ("", "cpu", "cuda"):
        raise Failure(f"TORCH={asked} is unknown: write TORCH=cpu or TORCH=cuda, or leave it out")
    if asked:
        return Torch(asked, f"TORCH={asked} asks for it", is_asked_for=True)
    if not sys.platform.startswith("linux"):
        return Torch("cpu", f"there is no CUDA on {sys.platform}")
    if shutil.which("nvidia-smi") or any(Path(place).exists() for place in DRIVER):
        return Torch("cuda", "an NVIDIA driver is here")
    return Torch("cpu", "no NVIDIA driver is here")


def pins(root: Path, extra: str) -> list[Pin]:
    path = root / "pins" / f"{extra}.txt"
    blocks = re.split(r"^(?=[a-z0-9])", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = (re.match(r"([a-z0-9._-]+)==([^\s;]+)", block) for block in blocks)
    return [
        Pin(match[1], match[2], block)
        for match, block in zip(found, blocks, strict=True)
        if match is not None
    ]


def torch_version(root: Path) -> str:
    return next(pin.version for pin in pins(root, "lab") if pin.name == "torch")


def beside_cpu_torch(of: list[Pin]) -> list[Pin]:
    return [pin for pin in of if pin.name != "torch" and not ONLY_FOR_CUDA.match(pin.name)]


def cpu_torch_is_pinned() -> bool:
    """Returns True if PyPI's torch is the one for the CPU, with hashes: on every system but
    Linux."""
    return not sys.platform.startswith("linux")


def fingerprint(root: Path) -> str:
    """Returns a hash of all pins: an environment made from the same pins is current."""
    digest = hashlib.sha256()
    for extra in EXTRAS:
        digest.update((root / "pins" / f"{extra}.txt").read_bytes())
    return digest.hexdigest()


def summary(root: Path, base: Path, torch: Torch) -> str:
    """Returns the text that is printed before the set-up: what comes, how large it is, and how to
    change it."""
    download, disk = SIZES[torch.kind]
    other = "cuda" if torch.kind == "cpu" else "cpu"
    python = "{}.{}.{}".format(*sys.version_info[:3])
    kind = "the CPU" if torch.kind == "cpu" else "CUDA"
    return (
        f"Setting up {base} with Python {python}.\n"
        f"Torch is {torch_version(root)} for {kind}, since {torch.why} "
        f"(TORCH={other} for the other).\n"
        f"It downloads about {download} where nothing is cached, and takes {disk} of disk."
        f"{without_triton()}"
    )


def without_triton() -> str:
    if sys.platform.startswith("linux"):
        return ""
    return (
        f"\nTriton does not exist on {sys.platform}: the katas that launch its kernels say so, and "
        "workshop/container has all of it."
    )
