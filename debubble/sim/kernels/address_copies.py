"""Copies by address: one copy, or a batch in one call of the driver."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from debubble.clock.action import Action
from debubble.contract.addresses import NEEDS_A_STREAM, check_pieces
from debubble.rules.copies import Direction, copy_of_bytes

from ..clock.device import SimDevice
from ..memory.address_map import DEVICE, NOWHERE, PINNED, AddressMap
from ..memory.arrivals import Download
from ..memory.inflight import Upload
from .address_work import AddressWork
from .reach import Reach


class AddressCopies:
    def __init__(self, device: SimDevice, addresses: AddressMap) -> None:
        self.device, self.addresses = device, addresses

    def copy(self, source: int, target: int, nbytes: int) -> None:
        """Copies `nbytes` bytes from address to address on the current stream. Does nothing for 0
        bytes, and raises RuntimeError for a negative number."""
        if nbytes < 0:
            raise RuntimeError(f"invalid value: {nbytes} bytes can't be copied")
        if nbytes > 0:
            from_, to, size = (np.array([n], np.int64) for n in (source, target, nbytes))
            self._queue(from_, to, size, is_batch=False)

    def copy_batch(
        self, sources: np.ndarray, targets: np.ndarray, sizes: np.ndarray, any_order: bool
    ) -> None:
        check_pieces(sources, targets, sizes)
        if len(sizes) == 0:
            return
        if self.device.streams.current().number == 0:
            raise RuntimeError(NEEDS_A_STREAM)
        self._queue(sources, targets, sizes, is_batch=True, any_order=any_order)

    def _queue(
        self,
        sources: np.ndarray,
        targets: np.ndarray,
        sizes: np.ndarray,
        *,
        is_batch: bool,
        any_order: bool = False,
    ) -> None:
        reach = Reach.of_copies(self.addresses, sources, targets, sizes)
        copies = []
        for kind, is_pageable, which in _groups(reach.from_.code, reach.to.code):
            if which.any():
                action = self._action(kind, is_pageable, sizes[which], is_batch)
                pieces = reach.read(which), reach.written(which)
                blocks = reach.from_.blocks, reach.to.blocks
                copy = ByteCopy(self.device, action, *pieces, *blocks)
                copy.reads_at_any_time = any_order
                copies.append(copy)
        self.device.check("the copy", [copy.action for copy in copies])
        for copy in copies:
            copy.queue()

    def _action(
        self, kind: Direction, is_pageable: bool, sizes: np.ndarray, is_batch: bool
    ) -> Action:
        action = copy_of_bytes(kind, int(sizes.sum()), pageable=is_pageable)
        if not is_batch:
            return action
        small = int((sizes < self.device.cost.batch_cliff_bytes).sum())
        return action._replace(pieces=(small, len(sizes) - small))


class ByteCopy(AddressWork):
    """One or more copies by address in the same direction, queued by one call."""

    def begin(self) -> list[Upload | Download]:
        in_flight, source, target = self.device.in_flight, self.reads, self.writes
        kind = self.action.copy_kind
        if kind == "h2d_pinned":
            upload = in_flight.upload(source, self.source)
            self.run(lambda: target.scatter(upload.read()))
            return [upload]
        if kind == "d2h":
            result = np.empty(source.nbytes, np.uint8)
            self.run(lambda: source.gather(result))
            return [in_flight.download(target, result, self.source)]
        # The host may overwrite pageable memory as soon as this call returns.
        sent = source.gather() if kind == "h2d_pageable" else None
        self.run(lambda: target.scatter(source.gather() if sent is None else sent))
        return []


def _groups(from_: np.ndarray, to: np.ndarray) -> Iterator[tuple[Direction, bool, np.ndarray]]:
    """Yields five groups of copies: the direction, True if its host memory is pageable, and a mask,
    bool [N], of the copies in the group. `from_` and `to` are the place codes of the N sources and
    targets."""
    yield "d2d", False, (from_ == DEVICE) & (to == DEVICE)
    for host, is_pageable in ((PINNED, False), (NOWHERE, True)):
        yield "h2d", is_pageable, (from_ == host) & (to == DEVICE)
        yield "d2h", is_pageable, (from_ == DEVICE) & (to == host)
