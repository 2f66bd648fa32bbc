"""The chunked gated delta rule op by op, with the same tables for each (vLLM #38361)."""

from .chunk_local_cumsum import chunk_local_cumsum
from .chunk_output import chunk_fwd_o
from .scaled_dot_kkt import chunk_scaled_dot_kkt_fwd
from .solve_tril import solve_tril
from .state_pass import chunk_gated_delta_rule_fwd_h
from .w_u import recompute_w_u_fwd

__all__ = [
    "chunk_fwd_o",
    "chunk_gated_delta_rule_fwd_h",
    "chunk_local_cumsum",
    "chunk_scaled_dot_kkt_fwd",
    "recompute_w_u_fwd",
    "solve_tril",
]
