"""sim: an accelerator simulated on the CPU, with CUDA's rules and a modelled clock."""

from ..contract.packages.pytorch import need_pytorch

need_pytorch(__name__)
