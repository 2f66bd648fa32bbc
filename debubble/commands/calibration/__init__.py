"""Measuring a GPU's cost model, which sim computes its times with."""

from ...contract.pytorch import need_pytorch

need_pytorch(__name__)
