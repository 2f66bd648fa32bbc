"""The error for a kernel that touches memory outside all known allocations."""

from __future__ import annotations

from debubble.contract.source_line import SourceLine


class IllegalMemoryAccess(RuntimeError):
    """The error for a kernel that read or wrote outside all memory that sim knows.

    `does` says how many bytes it read or wrote at which address. `launched_at` is the line of the
    launch; a replay replaces it with the line of the capture. `why` says where the memory was
    freed, or what to check.
    """

    def __init__(self, kernel: str, launched_at: SourceLine | None, does: str, why: str) -> None:
        super().__init__(kernel, does)
        self.kernel, self.launched_at, self.does, self.why = kernel, launched_at, does, why

    def __str__(self) -> str:
        launched = f", launched at {self.launched_at}," if self.launched_at else ""
        name = f"an illegal memory access was encountered: {self.kernel}"
        return f"{name}{launched} {self.does}; {self.why}"
