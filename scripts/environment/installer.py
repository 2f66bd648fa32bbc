"""Installs packages into an environment by uv, which takes seconds where pip takes minutes.

uv is taken from UV or the path, or installed from pip's index, once for all checkouts of this user.
If uv can't be installed, pip does the same work.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

import indexes
import places
from failure import Failure
from progress import run
from requirements import (
    CPU_INDEX,
    Torch,
    beside_cpu_torch,
    cpu_torch_is_pinned,
    pins,
    torch_version,
)

UV = Path(__file__).resolve().parents[2] / "pins" / "uv.txt"
"""The file with the version of uv that is installed, and its hashes."""
PATIENCE_SECONDS = 6


class Installer:
    def __init__(self, base: Path, root: Path, compiles: bool = False) -> None:
        """Finds uv, or installs it if that is possible. `compiles` is True if bytecode is written
        now, because the users of the base can't write it later. Raises Failure if WHEELS names a
        folder without wheels."""
        self.base, self.root, self.compiles = base, root, compiles
        # Followed to its own place now: it may be that of an environment which is removed later.
        self.interpreter = str(Path(sys.executable).resolve())
        self.python = base / "bin" / "python"
        wheels = os.environ.get("WHEELS", "")
        self.wheels = (root / Path(wheels).expanduser()).resolve() if wheels else None
        if self.wheels and not any(self.wheels.glob("*.whl")):
            raise Failure(f"WHEELS={wheels} holds no wheels: `make wheelhouse` fills such a folder")
        self.uv = self._find_uv()

    def python_fits(self, asked: str) -> bool:
        """Returns True if the base has a Python that runs, and if its version is the requested one,
        or none was requested."""
        look = [self.python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        try:
            done = subprocess.run(look, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return False
        return asked in ("", done.stdout.strip())

    def make_venv(self) -> None:
        """Makes the environment by the interpreter that runs this."""
        if self.uv:
            run(
                [
                    self.uv,
                    "venv",
                    "--quiet",
                    "--allow-existing",
                    "--python",
                    self.interpreter,
                    self.base,
                ]
            )
            return
        refuse_without_venv()
        run([self.interpreter, "-m", "venv", self.base])

    def install(self, torch: Torch, extra: str) -> None:
        """Installs the packages of an extra, torch first because it is the largest."""
        wanted = pins(self.root, extra)
        if torch.kind == "cpu" and not cpu_torch_is_pinned():
            wanted = beside_cpu_torch(wanted)
            self._install_cpu_torch()
        with tempfile.NamedTemporaryFile("w", suffix=f"-{extra}.txt") as file:
            file.write("".join(pin.text for pin in wanted))
            file.flush()
            print(f"Installing {len(wanted)} packages for {extra}.", flush=True)
            self._install("--require-hashes", "--no-deps", "-r", file.name)

    def _install_cpu_torch(self) -> None:
        version = torch_version(self.root)
        if self._has("torch", version):
            return
        if self.wheels:
            print(f"Installing torch {version} from {self.wheels}.", flush=True)
            self._install("--no-deps", f"torch=={version}")
        elif reaches(CPU_INDEX):
            print(f"Installing torch {version} from {CPU_INDEX}.", flush=True)
            only = ["--default-index", CPU_INDEX] if self.uv else ["--index-url", CPU_INDEX]
            self._install("--no-deps", *only, f"torch=={version}", settings=False)
        else:
            print(
                f"{CPU_INDEX} can't be reached: torch {version} comes from the index that is "
                "configured. PyPI's has CUDA with it, 3 GB.",
                flush=True,
            )
            constraints = str(self.root / "constraints.txt")
            self._install("--constraint", constraints, f"torch=={version}")

    def _install(self, *arguments: str, settings: bool = True) -> None:
        options: list[str] = []
        environment: dict[str, str] = {}
        if self.wheels:
            options = ["--no-index", "--find-links", str(self.wheels)]
        if self.uv:
            asked, environment = indexes.for_uv(indexes.pip_settings())
            options = options or (asked if settings else [])
            # A busy host is slow, which is no failure.
            environment["UV_COMPILE_BYTECODE_TIMEOUT"] = "900"
            # Hard links need the cache on the disk of the environment.
            if not self._shares_disk_with_cache():
                environment["UV_CACHE_DIR"] = str(self.base / ".uv-cache")
            compiled = ["--compile-bytecode"] * self.compiles
            python = ["--python", self.python, *compiled]
            command = [self.uv, "pip", "install", *python, *options, *arguments]
        else:
            pip = [self.python, "-m", "pip", "install", "--disable-pip-version-check"]
            quiet = [] if sys.stdout.isatty() else ["--progress-bar", "off"]
            command = [*pip, *quiet, *options, *arguments]
        try:
            run(command, environment)
        finally:
            shutil.rmtree(self.base / ".uv-cache", ignore_errors=True)

    def _has(self, name: str, version: str) -> bool:
        packages = places.packages_of(self.base)
        return any(packages.glob(f"{name}-{version}*.dist-info"))

    def _shares_disk_with_cache(self) -> bool:
        if os.environ.get("UV_CACHE_DIR"):
            return True
        cache = places.user_cache()
        try:
            cache.mkdir(parents=True, exist_ok=True)
            return os.access(cache, os.W_OK) and cache.stat().st_dev == self.base.stat().st_dev
        except OSError:
            return False

    def _find_uv(self) -> str | None:
        named = os.environ.get("UV", "")
        if named == "no":
            return None
        found = shutil.which(named or "uv")
        if found or named:
            return found
        folder = places.cache() / "uv"
        uv = folder / "bin" / "uv"
        if not uv.exists():
            print("Downloading uv, which installs in seconds.", flush=True)
            if not bring_uv(folder, self.wheels):
                print(
                    "uv can't be installed here: pip is used, which takes longer.",
                    flush=True,
                )
                return None
        return str(uv)


def bring_uv(folder: Path, wheels: Path | None = None) -> bool:
    """Installs uv into an environment of its own, by pip and its settings. Returns True on
    success."""
    refuse_without_venv()
    offline = ["--no-index", "--find-links", str(wheels)] if wheels else []
    pip = [folder / "bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    try:
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        command = [*pip, *offline, "--require-hashes", "-r", UV]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except (OSError, subprocess.CalledProcessError):
        return False


def refuse_without_venv() -> None:
    look = [sys.executable, "-c", "import venv, ensurepip"]
    if subprocess.run(look, capture_output=True, check=False).returncode:
        raise Failure(
            f"{sys.executable} has no venv module, which the set-up needs.\n"
            "Debian and Ubuntu keep it in a package of its own: apt install python3-venv"
        )


def reaches(index: str) -> bool:
    """Returns True if the index answers within seconds: a host without network must not wait for
    minutes."""
    if index.startswith(("file:", "/")):
        return Path(index.removeprefix("file://")).exists()
    try:
        with urllib.request.urlopen(f"{index}/torch/", timeout=PATIENCE_SECONDS) as answer:
            return answer.status == 200
    except (OSError, ValueError):
        return False
