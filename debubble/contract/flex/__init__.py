"""One call of FlexAttention: its arguments, and what its compilation depends on."""

from ..packages.pytorch import need_pytorch

need_pytorch(__name__)
