"""Blocks of code that are recorded, searched for host syncs, or forbidden to have any."""

from typing import TYPE_CHECKING

from ..lazy import make_lazy

if TYPE_CHECKING:
    from .collector import find_host_syncs
    from .no_compiling import no_compiles
    from .no_syncs import no_host_syncs
    from .recording import record

__all__ = ["find_host_syncs", "no_compiles", "no_host_syncs", "record"]

make_lazy(
    __name__,
    {
        "find_host_syncs": "collector",
        "no_compiles": "no_compiling",
        "no_host_syncs": "no_syncs",
        "record": "recording",
    },
)
