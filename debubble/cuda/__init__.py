"""CUDA through PyTorch: the accelerator, its recordings from Kineto, and its guard against host
waits."""

from ..contract.packages.pytorch import need_pytorch

need_pytorch(__name__)
