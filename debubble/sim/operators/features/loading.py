"""`torch.load` onto sim: turns a file's storage into device memory."""

from __future__ import annotations

from functools import partial

import torch

from debubble.rules.copies import upload_of_bytes

from ...clock.device import SimDevice
from ...tensor import CALLED


class SimStorage(torch.UntypedStorage):
    """A storage from a file that reports sim as its device, so that its tensors are made there."""

    @property
    def device(self) -> torch.device:  # type: ignore[override]  # PyTorch's is read-only too
        return torch.device("sim", 0)


def install(device: SimDevice) -> None:
    """Registers sim with `torch.load`. For `torch.save` it claims no storage, because tensors on
    sim pickle themselves (`SimTensor.__reduce_ex__`)."""
    torch.serialization.register_package(0, lambda storage: None, partial(_take_over, device))


def _take_over(
    device: SimDevice, storage: torch.UntypedStorage, location: str
) -> torch.UntypedStorage | None:
    """Uploads a storage loaded from a file whose location is sim, and returns it. Returns None for
    other locations, which leaves the storage to the next device."""
    if location.partition(":")[0] not in CALLED:
        return None
    actions = upload_of_bytes(storage.nbytes())
    device.check("torch.load", actions)
    device.perform(actions)
    storage.__class__ = SimStorage
    return storage
