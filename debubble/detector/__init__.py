from .collector import find_host_syncs
from .findings import Finding
from .report import SyncReport

__all__ = ["Finding", "SyncReport", "find_host_syncs"]
