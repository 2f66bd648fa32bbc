"""`torch.load` onto sim: a file's storage is taken over as device memory."""

from __future__ import annotations

from functools import partial

import torch

from debubble.rules.copies import upload_of_bytes

from ...clock.device import SimDevice
from ...tensor import CALLED


class SimStorage(torch.UntypedStorage):
    """A storage from a file that says it is on sim, so that tensors over it are made there."""

    @property
    def device(self) -> torch.device:  # type: ignore[override]  # nobody sets PyTorch's either
        return torch.device("sim", 0)


def install(device: SimDevice) -> None:
    """Tensors on sim save themselves (`SimTensor.__reduce_ex__`), so no storage is tagged."""
    torch.serialization.register_package(0, lambda storage: None, partial(_take_over, device))


def _take_over(
    device: SimDevice, storage: torch.UntypedStorage, location: str
) -> torch.UntypedStorage | None:
    """Called by `torch.load` for every storage; None leaves it to the next device."""
    if location.partition(":")[0] not in CALLED:
        return None
    actions = upload_of_bytes(storage.nbytes())
    device.check("torch.load", actions)
    device.perform(actions)
    storage.__class__ = SimStorage
    return storage
