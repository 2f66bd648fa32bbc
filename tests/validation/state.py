"""Which parts of the recorded validations still hold for the source as it is: of use without a GPU,
and so without importing torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .parts import all_parts
from .record import OLD_FIGURES, Record, read, shared, state_of
from .sources import SourceTree


@dataclass(frozen=True)
class State:
    """Of one record."""

    gpu: str
    """With their number, if there are several."""
    path: Path
    record: Record
    parts: dict[str, str]
    """Of each part its state, as `state_of` gives it."""

    @property
    def hold(self) -> int:
        return sum(state in ("passed", OLD_FIGURES) for state in self.parts.values())

    @property
    def others(self) -> dict[str, list[str]]:
        """Names of the parts of which more is to be said than that they passed, by their state: one
        name if it is said of all."""
        names = {
            kind: [name for name, state in self.parts.items() if state == kind]
            for kind in ("failed", "stale", "missing", OLD_FIGURES)
        }
        all_of_them = [f"all {len(self.parts)}"]
        return {
            kind: all_of_them if 1 < len(found) == len(self.parts) else found
            for kind, found in names.items()
            if found
        }

    @property
    def versions(self) -> str:
        """Of torch and Triton, with which its parts ran."""
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


def states(assets: Path, root: Path) -> list[State]:
    """Of every record with a part in it."""
    tree, found = SourceTree(root), []
    for path in sorted((assets / "validation").glob("*.json")):
        record = read(path)
        if not record.get("parts"):
            continue
        device = "sim" if record["gpu"] == "sim" else "cuda"
        parts = {
            part.name: state_of(
                record["parts"].get(part.name), tree.hash_of(part.rests_on, part.leaves_out)
            )
            for part in all_parts(device, record["gpus"], assets, assets)
        }
        gpu = record["gpu"] if record["gpus"] == 1 else f"{record['gpus']} × {record['gpu']}"
        found.append(State(gpu, path, record, parts))
    return found


def print_states(assets: Path, root: Path) -> bool:
    """A line a record, and one for each state of parts that a release waits for. True if there
    are none of those."""
    found = states(assets, root)
    for state in found:
        print(f"validated on {state.gpu}: {state.hold} of {len(state.parts)} parts hold")
        for kind, names in state.others.items():
            print(f"    {kind}: {', '.join(names)}")
    if not found:
        print("validated on no GPU: `make validate-gpu` does so on a machine that has one")
    return bool(found) and not any(state.others for state in found)
