"""debubble: instruments that show where a GPU waits, on a real GPU and on a simulated one."""

from contextlib import suppress

from .accelerator import accelerator
from .accelerator.choice import resolve
from .contract.host_syncs import HostSyncError, allow_host_sync
from .contract.triton_mode import interpret_triton
from .detector import SyncReport
from .recording import find_host_syncs, no_host_syncs, record
from .timeline import Timeline
from .views import showing

__all__ = [
    "HostSyncError",
    "SyncReport",
    "Timeline",
    "accelerator",
    "allow_host_sync",
    "find_host_syncs",
    "no_host_syncs",
    "record",
]

# Recordings lie below the views: here they hear of who draws them.
Timeline.display = showing

# A wrong DEBUBBLE_DEVICE is answered where an accelerator is asked for, not by every import.
with suppress(ValueError):
    if resolve("auto") == "sim":
        interpret_triton()
