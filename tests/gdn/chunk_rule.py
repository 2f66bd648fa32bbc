"""Runs the chunked rule on a batch of sequences, and checks its results."""

import torch

from solutions.gdn.rule.chunk_gated_delta_rule import chunk_gated_delta_rule

from .sequences import expect_close

NUM_SLOTS = 7
"""The number of slots in a pool."""
MODEL = {"heads": (4, 8), "sizes": (128, 128)}


def run(sequences, made_on="host", tables=None, starts=None, **options):
    """Runs the chunked gated delta rule on these sequences, and returns (o, final states)."""
    rows, offsets = sequences.tables(made_on) if tables is None else tables
    given = {
        "output_final_state": True,
        "cu_seqlens": sequences.cu_seqlens if starts is None else starts,
        "chunk_indices": rows,
        "chunk_offsets": offsets,
    }
    return chunk_gated_delta_rule(**sequences.args, **given | options)


def expect_right(sequences, made_on="host", states=None, dtype=torch.float32, **options):
    """Runs the chunked rule, and checks that outputs and final states are those of the
    definition."""
    o, final = run(sequences, made_on, initial_state=states, **options)
    l2norm = options.pop("use_qk_l2norm_in_kernel", False)
    right, right_states = sequences.expected(states, l2norm=l2norm, **options)
    assert o.dtype == sequences.v.dtype
    assert final.dtype == torch.float32
    expect_close(o, right, dtype)
    expect_close(final, right_states, dtype)


def pool_of(sequences, dtype=torch.float32):
    return sequences.states(NUM_SLOTS, dtype)


def flags_on(accelerator, flags):
    return torch.tensor(flags).to(accelerator.device)
