"""Questions that a reader answers before a chapter does: a number, a range, a line, a stretch."""

from .line import LineQuestion, predict_line
from .number import NumberQuestion, predict
from .stretch import StretchQuestion, predict_stretch
from .summary import show_predictions

__all__ = [
    "LineQuestion",
    "NumberQuestion",
    "StretchQuestion",
    "predict",
    "predict_line",
    "predict_stretch",
    "show_predictions",
]
