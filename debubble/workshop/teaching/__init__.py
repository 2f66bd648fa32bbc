"""What tests of katas expect, compare and hand out, and the diagnosis when it is not so."""

from ...contract.pytorch import need_pytorch

need_pytorch(__name__)
