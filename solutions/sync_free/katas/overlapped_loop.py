"""The decode loop with two steps in flight: the host prepares a step while the device computes one.

Host and device share the buffers of the uploads and the downloads, and two streams share the
tokens. For each of these an event says when it may be used again.

Only the kata `find_the_races` runs this loop: four races in so few lines need a second stream
beside the step's, and `DecodeStep` has no second stream.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from debubble.accelerator import current
from solutions.common.host_integers import host_integers
from solutions.common.read_back import ReadBack
from solutions.common.staging_ring import StagingRing

Decode = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

STEPS_IN_FLIGHT = 2


class DecodeLoop:
    """A decode loop whose tokens stay on the device from step to step; the host gets them one step
    late (vLLM #41429).

    `decode(tokens, positions)` returns the next tokens, and queues its kernels on the current
    stream. All three are [num_requests] int64 on the device. The first tokens are zeros.
    """

    def __init__(self, decode: Decode, num_requests: int) -> None:
        accelerator = current()
        self.decode = decode
        self.tokens = torch.zeros(num_requests, dtype=torch.int64, device=accelerator.device)
        self.staging = StagingRing((num_requests,), torch.int64, STEPS_IN_FLIGHT)
        self.copying = accelerator.stream()
        self.on_its_way: ReadBack | None = None

    def step(self, positions: torch.Tensor) -> list[int] | None:
        """Queues a step, then returns the tokens of the step before it, or None if there is none.

        `positions` is [num_requests] int64 on the host, and the caller may change it at once.
        """
        on_host = torch.from_numpy(host_integers("positions", positions))
        if on_host.shape != self.tokens.shape:
            raise ValueError(
                f"positions of shape {list(on_host.shape)}: this loop has {len(self.tokens)} "
                "requests, and wants a position for each"
            )
        uploaded = torch.empty_like(self.tokens)
        self.staging.upload(on_host, uploaded)
        self.tokens = self.decode(self.tokens, uploaded)
        of_step_before, self.on_its_way = self.on_its_way, self._read_back()
        return None if of_step_before is None else of_step_before.read().tolist()

    def finish(self) -> list[int] | None:
        """Returns the tokens of the last step, or None if there is none."""
        return None if self.on_its_way is None else self.on_its_way.read().tolist()

    def _read_back(self) -> ReadBack:
        """Starts the download of `tokens` on a second stream, once they are written, and returns
        it. The next step's kernels run meanwhile."""
        self.copying.wait_stream(current().current_stream())
        with self.copying:
            on_its_way = ReadBack(self.tokens)
        # Memory belongs to the stream that allocated it. Another stream that reads it has to be
        # recorded. Else the memory may be reused, and written to, before the copy is done.
        self.tokens.record_stream(self.copying)  # type: ignore[arg-type]  # or a stream of sim's
        return on_its_way
