"""The state of the recorded validations: useful without a GPU, so torch is not imported."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .parts import all_parts
from .record import Record, has_result, read, shared


@dataclass(frozen=True)
class State:
    """The record of one kind of GPU, with the status of each part that exists today."""

    gpu: str
    """The GPU's name, with their number if there are several."""
    path: Path
    record: Record
    parts: dict[str, str]
    """The status by the part's name: "passed", "failed" or "no result"."""

    def named(self, status: str) -> list[str]:
        return [name for name, its in self.parts.items() if its == status]

    @property
    def others(self) -> str:
        """Returns a text that names the parts that failed and those without a result; "" if there
        are none."""
        kinds = {status: self.named(status) for status in ("failed", "no result")}
        return "; ".join(
            f"{status}: {', '.join(names)}" for status, names in kinds.items() if names
        )

    @property
    def versions(self) -> str:
        """Returns a text with the versions of torch, Triton and the driver with which the parts
        ran."""
        ran = self.record["parts"].values()
        names = {"torch": "torch", "triton": "Triton", "driver": "driver"}
        return ", ".join(
            f"{shown} {shared(part['versions'][name] for part in ran)}"
            for name, shown in names.items()
        )

    @property
    def dates(self) -> str:
        days = sorted({part["date"][:10] for part in self.record["parts"].values()})
        return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"


def states(assets: Path) -> list[State]:
    """Returns a State for each record that has results, the one with the newest result first."""
    found = []
    for path in sorted((assets / "validation").glob("*.json")):
        record = read(path)
        if not record.get("parts"):
            continue
        device = "sim" if record["gpu"] == "sim" else "cuda"
        results = record["parts"]
        parts = {
            part.name: results[part.name]["status"]
            if has_result(results.get(part.name))
            else "no result"
            for part in all_parts(device, record["gpus"], assets, assets)
        }
        gpu = record["gpu"] if record["gpus"] == 1 else f"{record['gpus']} × {record['gpu']}"
        found.append(State(gpu, path, record, parts))
    return sorted(found, key=lambda state: state.dates[-10:], reverse=True)


def print_states(assets: Path) -> bool:
    """Prints a line for each record. Returns True if there is a record, and if every part of every
    record passed."""
    found = states(assets)
    for state in found:
        passed = len(state.named("passed"))
        print(f"{state.gpu}: {passed} of {len(state.parts)} parts passed, {state.dates}")
        if state.others:
            print(f"    {state.others}")
    if not found:
        print("validated on no GPU: `make validate-gpu` does so on a machine that has one")
    return bool(found) and not any(state.others for state in found)
