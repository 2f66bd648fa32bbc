"""The work of PyTorch's operators on CUDA, launches, copies and host waits, as rules over
metadata."""

from ..contract.packages.pytorch import need_pytorch

need_pytorch(__name__)
