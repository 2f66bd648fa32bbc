"""CUDA through PyTorch: the accelerator, its recordings from Kineto, its guard against waits."""

from ..contract.pytorch import need_pytorch

need_pytorch(__name__)
