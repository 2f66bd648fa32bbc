"""The common checks of all katas' tests, each on the inputs that a kata's test gives."""

from ...contract.pytorch import need_pytorch

need_pytorch(__name__)
