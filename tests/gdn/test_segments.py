"""Long sequences are split into segments, and their outputs are still those of the definition.

The segments here are of a few chunks, so that short sequences have several.
"""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from solutions.gdn.rule import segments

from .chunk_rule import NUM_SLOTS, expect_right, flags_on, pool_of, run
from .sequences import Sequences, expect_close, integers

LENGTHS = [450, 0, 3, 130]
GATES = {
    "weak": lambda gates: gates / 500,
    "of 0": torch.zeros_like,
    "strong": lambda gates: gates - 2,
    "of -inf, among weak ones": lambda gates: (gates / 500).index_fill(
        1, torch.arange(0, gates.shape[1], 77), -torch.inf
    ),
}
"""How the gates of a test are made of random ones."""


@pytest.fixture(params=[1, 2, 3])
def segment(request, monkeypatch):
    """Sets the number of chunks of a segment."""
    monkeypatch.setattr(segments, "SHORTEST_SEGMENT", request.param)
    monkeypatch.setattr(segments, "PROGRAMS", 1 << 20)
    return request.param


def with_gates(sequences, kind):
    gates = GATES[kind](sequences.g.cpu())
    return replace(sequences, g=gates.to(sequences.g.device))


@pytest.mark.parametrize("kind", GATES)
def test_a_sequence_of_many_segments(accelerator, segment, kind):
    sequences = with_gates(Sequences.random(accelerator, LENGTHS), kind)
    expect_right(sequences, states=sequences.states())


@pytest.mark.parametrize("made_on", ["device", None])
def test_tables_made_on_the_device_have_windows_without_a_segment(accelerator, segment, made_on):
    sequences = with_gates(Sequences.random(accelerator, [1, 200, 0, 129, 1]), "weak")
    expect_right(sequences, made_on)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("sizes", [(64, 16), (16, 64)], ids=str)
def test_transitions_of_any_size_and_type(accelerator, monkeypatch, dtype, sizes):
    monkeypatch.setattr(segments, "SHORTEST_SEGMENT", 1)
    monkeypatch.setattr(segments, "PROGRAMS", 1 << 20)
    sequences = Sequences.random(accelerator, [200], sizes=sizes, dtype=dtype)
    sequences = with_gates(sequences, "weak")
    expect_right(sequences, states=sequences.states(), dtype=dtype)


def test_all_segments_start_from_a_pool_that_the_last_one_overwrites(accelerator, segment):
    sequences = with_gates(Sequences.random(accelerator, [300, 200, 65]), "weak")
    was, pool = pool_of(sequences), pool_of(sequences)
    slots = integers(accelerator.device, [4, 1, NUM_SLOTS])
    flags = flags_on(accelerator, [True, False, True])
    o, _ = run(sequences, initial_state=pool, state_indices=slots, has_initial_state=flags)
    before = torch.zeros(3, *sequences.state_shape)
    before[0] = was[4].cpu()
    right, states = sequences.expected(before)
    expect_close(o, right, torch.float32)
    expect_close(pool[4], states[0], torch.float32)
    expect_close(pool[1], states[1], torch.float32)


def test_what_long_keys_let_grow_is_not_left_out(accelerator, monkeypatch):
    """Gates alone would decay the state to nothing, but with keys of length 2 each token triples
    it along the keys."""
    monkeypatch.setattr(segments, "SHORTEST_SEGMENT", 2)
    sequences = Sequences.random(accelerator, [260], heads=(1, 1))
    sequences = replace(
        sequences,
        k=2 * F.normalize(torch.ones_like(sequences.k), dim=-1),
        g=torch.full_like(sequences.g, -1.05),
        beta=torch.ones_like(sequences.beta),
    )
    expect_right(sequences, states=sequences.states())


def test_segments_fill_the_sms_and_are_not_too_short():
    assert segments.segment_length(128, num_heads=16) == 16
    assert segments.segment_length(512, num_heads=16) == 64
    assert segments.segment_length(20, num_heads=16) == segments.SHORTEST_SEGMENT
    assert segments.segment_length(128, num_heads=500) == 128
    assert segments.most_windows(128, 16) == 7
    assert segments.most_windows(0, 8) == 0
