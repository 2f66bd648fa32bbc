"""A slice for every step (chapter 04, medium, 20 minutes).

A captured graph reads the address, the sizes and the strides that it was captured with. So each
tensor that changes from step to step gets a buffer as large as the largest step, and each step's
values are copied into it. The function below should make this copy. But it returns the step's own
tensor: all is well until a graph is replayed, because the graph still reads the tensor of its
capture.

Copy `src` into a slice of `dst`, and return that slice. The slice begins where `dst` begins and has
the strides of `dst`, whatever the size of the step; the rest of `dst` stays as it was. Raise
ValueError if `src` does not fit: more rows or columns, a different number of dimensions, a
different dtype or device.

You need to know sizes, strides and slices of tensors.

Edit this file, then run

    .venv/bin/pytest katas/flex_graph/test_copy_to_persistent.py

Stuck?         .venv/bin/debubble hint copy_to_persistent
Start afresh?  .venv/bin/debubble reset copy_to_persistent
"""

from __future__ import annotations

import torch


# Yours to edit, from here on.
def copy_to_persistent(dst: torch.Tensor, src: torch.Tensor) -> torch.Tensor:
    """Copies `src` to the start of `dst`, and returns that part of `dst`, in the shape of `src`
    (vLLM #36298). The part has the strides of `dst` in every step, so rows stay where a graph
    captured them. If `src` is this part of `dst` already, nothing is copied. An empty `src`
    returns an empty part that begins where `dst` begins.

    Raises ValueError if `src` is larger in some dimension, of another dtype, or on another device.
    """
    return src
