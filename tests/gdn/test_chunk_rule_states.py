"""States of the chunked rule: where sequences start from, and where they leave them."""

import pytest
import torch

from .chunk_rule import NUM_SLOTS, expect_right, flags_on, pool_of, run
from .sequences import Sequences, expect_close, integers


def test_the_states_are_left_as_they_are(accelerator):
    sequences = Sequences.random(accelerator, [3, 66])
    states = sequences.states()
    run(sequences, initial_state=states)
    assert torch.equal(states.cpu(), sequences.states().cpu())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_states_of_either_type_with_gaps_between_them(accelerator, dtype):
    sequences = Sequences.random(accelerator, [3, 66])
    states = torch.full((4, 3, 32, 16), torch.nan, dtype=dtype).to(accelerator.device)[::2, :2]
    states.copy_(sequences.states(dtype=dtype))
    expect_right(sequences, states=states)


@pytest.mark.parametrize("made_on", ["host", None])
@pytest.mark.parametrize("end", [70, 5000])
def test_a_sequence_that_goes_on_behind_the_last_token_ends_there(accelerator, end, made_on):
    """A last sequence whose end lies beyond the tokens is computed as if it ended at the last
    token. The host can't check starts that are on the device."""
    sequences = Sequences.random(accelerator, [3, 66])
    states, starts = sequences.states(), integers(accelerator.device, [0, 3, end])
    tables = sequences.tables(made_on)
    o, final = run(sequences, tables=tables, starts=starts, initial_state=states)
    right, right_states = sequences.expected(states)
    expect_close(o, right, torch.float32)
    expect_close(final, right_states, torch.float32)


SLOTS = [5, -1, 2, NUM_SLOTS, 4, 0, 2**31 - 1, -(2**31)]
HAS_STATE = [True, True, False, True, False, True, False, False]
IN_POOL = [3, 2, 65, 1, 0, 2, 1, 2]
"""The lengths of the sequences in a pool. The fifth one has a slot, but no tokens."""


@pytest.mark.parametrize("flags", [None, HAS_STATE], ids=["all go on", "some start anew"])
def test_each_sequence_goes_on_from_its_slot(accelerator, flags):
    sequences = Sequences.random(accelerator, IN_POOL)
    was, pool = pool_of(sequences), pool_of(sequences)
    options = {} if flags is None else {"has_initial_state": flags_on(accelerator, flags)}
    slots = integers(accelerator.device, SLOTS)
    o, returned = run(sequences, initial_state=pool, state_indices=slots, **options)
    assert returned is pool

    before = torch.zeros(len(SLOTS), *sequences.state_shape)
    for n, slot in enumerate(SLOTS):
        if 0 <= slot < NUM_SLOTS and (flags is None or flags[n]):
            before[n] = was[slot].cpu()
    right, states = sequences.expected(before)
    expect_close(o, right, torch.float32)
    written = {slot: n for n, slot in enumerate(SLOTS) if n in (0, 2, 5)}
    for slot in range(NUM_SLOTS):
        if slot in written:
            expect_close(pool[slot], states[written[slot]], torch.float32)
        else:
            assert torch.equal(pool[slot].cpu(), was[slot].cpu())


def test_a_sequence_without_tokens_may_share_its_slot(accelerator):
    sequences = Sequences.random(accelerator, [0, 3, 0])
    was, pool = pool_of(sequences), pool_of(sequences)
    run(sequences, initial_state=pool, state_indices=integers(accelerator.device, [0, 0, 0]))
    _, states = sequences.expected(torch.stack([was[0]] * 3))
    expect_close(pool[0], states[1], torch.float32)


@pytest.mark.sim
def test_a_slot_of_two_sequences_is_seen(accelerator):
    """Two sequences with one slot raise RuntimeError on sim, and the pool stays as it was. A GPU
    doesn't detect it: one of the two sequences writes last."""
    sequences = Sequences.random(accelerator, [0, 3, 65, 1])
    was, pool = pool_of(sequences), pool_of(sequences)
    states = {"initial_state": pool, "state_indices": integers(accelerator.device, [1, 2, 1, 2])}
    with pytest.raises(RuntimeError, match="two sequences with tokens have one slot: give each"):
        run(sequences, **states)
    assert torch.equal(pool.cpu(), was.cpu())
    run(sequences, **states, output_final_state=False)


def test_without_final_states_the_pool_is_only_read(accelerator):
    sequences = Sequences.random(accelerator, [3, 66])
    was, pool = pool_of(sequences), pool_of(sequences)
    slots = integers(accelerator.device, [6, 0])
    o, final = run(sequences, initial_state=pool, state_indices=slots, output_final_state=False)
    assert final is None
    assert torch.equal(pool.cpu(), was.cpu())
    expect_close(o, sequences.expected(was[[6, 0]])[0], torch.float32)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_a_pool_that_is_a_part_of_a_larger_one(accelerator, dtype):
    """A pool can be a view of a larger tensor, whose other numbers stay as they are. States are
    rounded to the pool's dtype."""
    sequences = Sequences.random(accelerator, [3, 66])
    whole = torch.full((NUM_SLOTS, 3, 32, 16), torch.nan, dtype=dtype).to(accelerator.device)
    was, pool = pool_of(sequences, dtype), whole[:, :2]
    pool.copy_(was)
    run(sequences, initial_state=pool, state_indices=integers(accelerator.device, [6, 0]))
    _, states = sequences.expected(was[[6, 0]])
    expect_close(pool[[6, 0]], states, dtype)
    assert torch.equal(pool[1:6].cpu(), was[1:6].cpu())
    assert whole[:, 2].isnan().all()
