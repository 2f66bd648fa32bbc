"""The claims, inputs and checks that tests of katas use, and the diagnosis when one fails."""

from ...contract.packages.pytorch import need_pytorch

need_pytorch(__name__)
