"""`debubble doctor`: describes this machine in a dozen lines, and says what is modelled."""

from __future__ import annotations

import os
import platform
import shutil
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING

import typer

import debubble
from debubble.assets import slug
from debubble.contract.packages.installed import installed
from debubble.contract.packages.pytorch import SEEN, PyTorchNeeded, need_pytorch, newer_than_seen
from debubble.contract.packages.triton_mode import is_interpreted

from .registered import registered

if TYPE_CHECKING:
    from debubble.accelerator import Accelerator

CALIBRATED = "debubble.calibrated"
"""Entry points with the names of those of `debubble calibrate`, each a callable (GPU's name) ->
str. The result is a sentence that says whether this GPU was measured, and whose figures are used if
not."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WITHOUT_PYTORCH = "opened: `debubble trace FILE`, Timeline.load"


def doctor() -> None:
    """Prints what this machine is: accelerator, versions, what is measured and what is modelled."""
    try:
        need_pytorch("the accelerator")
        accelerator = debubble.accelerator("auto")
    except PyTorchNeeded as error:
        show({"accelerator": f"none: it needs {error.reason}", "recordings": WITHOUT_PYTORCH})
        show(software())
        raise typer.Exit(2) from None
    except (RuntimeError, ValueError) as error:
        show({"accelerator": f"none: {error}", "GPU": gpu(), **software()})
        raise typer.Exit(2) from None
    show({**hardware(accelerator), **calibrations(accelerator), **software(), **tools()})


def show(lines: dict[str, str]) -> None:
    for label, text in lines.items():
        typer.echo(f"{label:<14} {text}")


def hardware(accelerator: Accelerator) -> dict[str, str]:
    measured = "measured on this GPU"
    from debubble.cuda.memory_limit import limit_in_gib

    modelled = "modelled: counts are a GPU's, durations come from a cost model"
    return {
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPU cores",
        "GPU": gpu() if accelerator.modelled else gpu(limit_in_gib()),
        "accelerator": accelerator.description,
        "times": modelled if accelerator.modelled else measured,
        **({} if accelerator.modelled else numa(pci_address(), allowed_cpus())),
        "pinned memory": pinning(accelerator),
        "batch copies": batch_copies(accelerator),
    }


def gpu(limit: float | None = None) -> str:
    """Returns the GPU in words; `limit` is the number of its GiB that this process may use."""
    import torch

    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        total = properties.total_memory / 2**30
        found = f"{properties.name}, {total:.0f} GiB"
        if limit is None or limit >= total:
            return found
        return f"{found}, of which this process may use {limit:g}"
    if torch.version.cuda is None:
        return "not used: this build of torch has no CUDA"
    return "none found: torch has CUDA, but no driver or no device answers"


def pinning(accelerator: Accelerator) -> str:
    if not accelerator.pin_memory:
        return "not possible here: every upload is pageable"
    if accelerator.modelled:
        return "modelled"
    return "yes; PyTorch rounds each block up to a power of two bytes"


def pci_address() -> str:
    """Returns the GPU's place in /sys/bus/pci/devices, or "" if this PyTorch doesn't say it."""
    import torch

    gpu = torch.cuda.get_device_properties(0)
    domain, bus, place = (
        getattr(gpu, f"pci_{part}_id", -1) for part in ("domain", "bus", "device")
    )
    return "" if -1 in (domain, bus, place) else f"{domain:04x}:{bus:02x}:{place:02x}.0"


def allowed_cpus() -> set[int]:
    """Returns the processors on which this process may run, or an empty set if it isn't known."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def numa(gpu: str, cpus: set[int], system: Path = Path("/sys")) -> dict[str, str]:
    """Returns a line about the memory nodes of the GPU and of this process, or {} if the machine
    has one node, or doesn't say. Memory of another node than the GPU's makes copies slower."""
    try:
        of_gpu = int((system / "bus/pci/devices" / gpu / "numa_node").read_text())
        nodes = {
            int(path.parent.name.removeprefix("node")): _numbers(path.read_text())
            for path in (system / "devices/system/node").glob("node*/cpulist")
        }
    except (OSError, ValueError):
        return {}
    if of_gpu < 0 or len(nodes) < 2:
        return {}
    of_process = sorted(node for node, those in nodes.items() if those & cpus)
    here = " and ".join(map(str, of_process)) or "unknown"
    text = f"the GPU is on node {of_gpu}, this process may run on {here}"
    if of_process != [of_gpu]:
        text += f": copies are faster with `numactl --cpunodebind={of_gpu} --membind={of_gpu}`"
    return {"memory nodes": text}


def _numbers(text: str) -> set[int]:
    """Returns the numbers of a list such as "0-3,8"."""
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def batch_copies(accelerator: Accelerator) -> str:
    if accelerator.modelled:
        return "modelled"
    if accelerator.has_copy_batch:
        return "yes"
    return "the driver is older than CUDA 12.8: copies go one at a time"


def calibrations(accelerator: Accelerator) -> dict[str, str]:
    """Returns whose measurements are used for each calibrated part, such as "sim's times", as a
    sentence by the part's name. Empty on sim, which is no GPU to measure."""
    if accelerator.modelled:
        return {}
    gpu = accelerator.description
    others = {name: used_for(point, gpu) for name, point in registered(CALIBRATED).items()}
    return {"sim's times": sims_times(gpu), **others}


def sims_times(gpu: str) -> str:
    """Returns a sentence with the GPU that sim's times are modelled on."""
    from debubble.clock.cost import CALIBRATIONS, VARIABLE, CostModel

    try:
        modelled = CostModel.load().gpu
    except ValueError as error:
        return f"none: {error}"
    if modelled == gpu:
        return "modelled on this GPU"
    if (CALIBRATIONS / f"{slug(gpu)}.json").exists():
        return f"modelled on {modelled}; {VARIABLE}={slug(gpu)} models them on this GPU"
    return f"modelled on {modelled}, not on this GPU: `debubble calibrate --only cost` measures it"


def used_for(point: EntryPoint, gpu: str) -> str:
    try:
        return point.load()(gpu)
    except Exception as error:
        return f"{point.value} can't be asked: {type(error).__name__}: {error}"


def software() -> dict[str, str]:
    return {
        "debubble": installed("debubble") or "run from the checkout, not installed",
        "Python": platform.python_version(),
        "torch": torch(),
        "Triton": triton(),
    }


def torch() -> str:
    """Returns the installed version of torch, with a warning if it is newer than any that debubble
    was tried with."""
    try:
        version = str(need_pytorch("the accelerator").__version__)
    except PyTorchNeeded:
        return installed("torch") or "not installed"
    if newer_than_seen(version):
        return f"{version}, newer than {SEEN[-1]}, the newest that debubble was tested with"
    return version


def triton() -> str:
    found = installed("triton")
    if found is None:
        return (
            "not installed: the chapters from 01 on need it, and the katas local_cumsum and "
            "swap_kernel"
        )
    return f"{found}, kernels are {'interpreted on the CPU' if is_interpreted() else 'compiled'}"


def tools() -> dict[str, str]:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    return {
        "JupyterLab": installed("jupyterlab") or "not installed: the chapters need it",
        "Chromium": browser or "not found: only our browser tests need it",
    }
