"""The tables that outlive a step on the device: the requests' tokens, their counts, and their
states."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from .config import StepConfig


class RequestTables:
    """The tables of the requests, on the device.

    The int32 tables are indexed by a request's row: `token_ids` [num_requests, max_len],
    `num_tokens` [num_requests], `prompt_bin_mask` [num_requests, ceil(vocab_size / 32)] and
    `output_bin_counts` [num_requests, vocab_size]. `conv_states`, of the model's dtype, is indexed
    by a request's slot: [num_requests, hidden_size, conv_width - 1] for each mixing layer.
    """

    def __init__(self, config: StepConfig, device: torch.device) -> None:
        def integers(*shape: int) -> torch.Tensor:
            return torch.zeros(shape, dtype=torch.int32, device=device)

        requests, vocab_size = config.num_requests, config.vocab_size
        self.token_ids = integers(requests, config.max_len)
        self.num_tokens = integers(requests)
        self.prompt_bin_mask = integers(requests, -(-vocab_size // 32))
        self.output_bin_counts = integers(requests, vocab_size)
        self.logits_rows = integers(2 * requests)
        """[2 * num_requests] int32: the buffer for the `logits_indices` of a padded batch."""
        # Channels side by side, as in the tokens.
        shape = (requests, config.conv_width - 1, config.hidden_size)
        self.conv_states = [
            torch.zeros(shape, dtype=config.dtype, device=device).transpose(1, 2)
            for _ in range(config.num_mixing_layers)
        ]
        self.row_of: Mapping[str, int] | None = None
        """Each request's row in the last step; None before the first step."""
