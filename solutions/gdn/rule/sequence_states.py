"""Where the chunked rule finds the state of each sequence, and where it leaves it."""

from __future__ import annotations

from typing import NamedTuple

import torch

from .strides import is_dense

STATE_TYPES = (torch.float32, torch.bfloat16)
STATE_ARGUMENTS = ("initial_state", "state_indices", "has_initial_state")
"""What a caller knows the three parts of SequenceStates as."""


class SequenceStates(NamedTuple):
    """One state for each sequence, or a pool with a slot for each; see `chunk_gated_delta_rule`."""

    initial: torch.Tensor | None
    slots: torch.Tensor | None
    has_initial: torch.Tensor | None

    def check(self, num_seqs: int, shape: tuple[int, int, int], device: torch.device) -> None:
        """`shape`: [HV, V, K] of one state. ValueError; values on the device are not read."""
        for name, tensor in zip(STATE_ARGUMENTS, self, strict=True):
            if tensor is not None and tensor.device != device:
                raise ValueError(
                    f"{name} is on {tensor.device}, and the tokens on {device}: use one device"
                )
        for name, tensor, dtype in (
            ("state_indices", self.slots, torch.int32),
            ("has_initial_state", self.has_initial, torch.bool),
        ):
            if tensor is None:
                continue
            if self.initial is None:
                raise ValueError(f"{name} without initial_state: give the states that it is about")
            if tensor.shape != (num_seqs,) or tensor.dtype != dtype or not tensor.is_contiguous():
                raise ValueError(
                    f"{name} is {tensor.dtype} {list(tensor.shape)}: for {num_seqs} sequences make "
                    f"it {dtype} [{num_seqs}], contiguous"
                )
        if self.initial is None:
            return
        count = "num_slots" if self.slots is not None else str(num_seqs)
        fits = self.initial.dim() == 4 and self.initial.shape[1:] == shape
        if self.slots is None:
            fits = fits and len(self.initial) == num_seqs
        if not fits or self.initial.dtype not in STATE_TYPES or not is_dense(self.initial, 1):
            raise ValueError(
                f"initial_state is {self.initial.dtype} {list(self.initial.shape)} with strides "
                f"{self.initial.stride()}: make it float32 or bfloat16 "
                f"[{count}, {', '.join(map(str, shape))}], each state contiguous"
            )

    def room_for_final(
        self, num_seqs: int, shape: tuple[int, int, int], device: torch.device
    ) -> torch.Tensor:
        """The pool itself, or [num_seqs, *shape] float32, uninitialised."""
        if self.initial is not None and self.slots is not None:
            return self.initial
        return torch.empty(num_seqs, *shape, dtype=torch.float32, device=device)
