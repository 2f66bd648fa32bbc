"""The panel of an engine: its switches, its workload, and the results of a run."""

from typing import TYPE_CHECKING

from ...lazy import make_lazy

if TYPE_CHECKING:
    from .dashboard import Dashboard

__all__ = ["Dashboard"]

make_lazy(__name__, {"dashboard": ["Dashboard"]})
