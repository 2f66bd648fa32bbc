from .findings import Finding
from .report import SyncReport

__all__ = ["Finding", "SyncReport"]
