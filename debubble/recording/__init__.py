"""Blocks of code that are recorded, searched for host syncs, or forbidden to have any."""

from typing import TYPE_CHECKING

from ..lazy import make_lazy

if TYPE_CHECKING:
    from .collector import find_host_syncs
    from .forbidding import no_compiles, no_host_syncs
    from .recording import record

__all__ = ["find_host_syncs", "no_compiles", "no_host_syncs", "record"]

make_lazy(
    __name__,
    {
        "collector": ["find_host_syncs"],
        "forbidding": ["no_compiles", "no_host_syncs"],
        "recording": ["record"],
    },
)
