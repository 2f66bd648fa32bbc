"""debubble: instruments that show where a GPU waits, on a real GPU and on a simulated one."""

from typing import TYPE_CHECKING

from .before_triton import before_triton
from .lazy import make_lazy
from .timeline import Timeline
from .traces.loader import OtherFiles
from .views.showing import TimelineViews

if TYPE_CHECKING:
    from .accelerator import accelerator, as_cuda
    from .contract.compiles import UnexpectedCompile, allow_compiles
    from .contract.host_syncs import HostSyncError, allow_host_sync
    from .detector import SyncReport
    from .recording import find_host_syncs, no_compiles, no_host_syncs, record

__all__ = [
    "HostSyncError",
    "SyncReport",
    "Timeline",
    "UnexpectedCompile",
    "accelerator",
    "allow_compiles",
    "allow_host_sync",
    "as_cuda",
    "find_host_syncs",
    "no_compiles",
    "no_host_syncs",
    "record",
]

# Timelines lie below the views and the traces in the order of imports: here they learn which views
# draw them, and who opens other programs' files.
Timeline.display = TimelineViews()
Timeline.other_files = OtherFiles()

make_lazy(
    __name__,
    {
        "accelerator": ["accelerator", "as_cuda"],
        "contract.compiles": ["UnexpectedCompile", "allow_compiles"],
        "contract.host_syncs": ["HostSyncError", "allow_host_sync"],
        "detector": ["SyncReport"],
        "recording": ["find_host_syncs", "no_compiles", "no_host_syncs", "record"],
    },
)
before_triton()
