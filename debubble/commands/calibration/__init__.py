"""Measures a GPU's cost model, from which sim computes its times."""

from ...contract.packages.pytorch import need_pytorch

need_pytorch(__name__)
