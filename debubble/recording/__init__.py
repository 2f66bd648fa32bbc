"""Blocks of code that are looked at: recorded, searched for host syncs, or kept from any."""

from .collector import find_host_syncs
from .no_syncs import no_host_syncs
from .recording import record

__all__ = ["find_host_syncs", "no_host_syncs", "record"]
