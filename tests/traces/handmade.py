"""Traces as torch.profiler writes them, made by hand: times in them are known."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

HOST, THREAD, DEVICE, STREAM = 100, 100, 0, 7
BASE = 5_000_000.0


class Handmade:
    """A trace that grows by calls. All times are microseconds after BASE."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.correlation = 0

    def host(self, cat: str, name: str, at: float, lasts: float, **args: Any) -> Handmade:
        thread = args.pop("thread", THREAD)
        self._add(cat, name, HOST, thread, at, lasts, args)
        return self

    def op(self, name: str, at: float, lasts: float, **args: Any) -> Handmade:
        return self.host("cpu_op", name, at, lasts, **args)

    def function(self, name: str, at: float, lasts: float) -> Handmade:
        return self.host("python_function", name, at, lasts)

    def call(self, name: str, at: float, lasts: float = 5.0, **args: Any) -> int:
        """Adds a call of CUDA, and returns its correlation."""
        self.correlation += 1
        self.host("cuda_runtime", name, at, lasts, correlation=self.correlation, **args)
        return self.correlation

    def kernel(self, correlation: int, at: float, lasts: float, stream: int = STREAM) -> Handmade:
        return self.device("kernel", "void work<float>(int)", correlation, at, lasts, stream)

    def device(
        self, cat: str, name: str, correlation: int, at: float, lasts: float, stream: int = STREAM
    ) -> Handmade:
        args = {"device": DEVICE, "stream": stream, "correlation": correlation, "bytes": 64}
        self._add(cat, name, DEVICE, stream, at, lasts, args)
        return self

    def launched(self, at: float, starts: float, lasts: float, op: str = "aten::add") -> Handmade:
        """Adds an operator at `at` whose kernel runs from `starts`."""
        self.op(op, at, 10.0)
        return self.kernel(self.call("cudaLaunchKernel", at + 3), starts, lasts)

    def _add(
        self, cat: str, name: str, pid: object, tid: object, at: float, lasts: float, args: dict
    ) -> None:
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": BASE + at,
             "dur": lasts, "args": args}
        )  # fmt: skip

    def text(self) -> str:
        header = {
            "schemaVersion": 1,
            "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}],
            "traceEvents": self.events,
            "traceName": "trace.json",
        }
        return json.dumps(header, indent=1)

    def save(self, path: Path) -> Path:
        content = self.text().encode()
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
        return path
