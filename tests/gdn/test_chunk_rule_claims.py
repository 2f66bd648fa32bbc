"""Claims about the chunked rule: it never waits, never uploads, can be captured, and compiles
once."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import triton

from solutions.gdn.device_tables import prepare_chunk_tables_on_device
from solutions.gdn.rule.chunks import ChunkTables
from tests.common import claims

from .batches import TABLES
from .chunk_rule import MODEL, flags_on, pool_of, run
from .sequences import Sequences, expect_close, integers


def test_three_kernels_no_upload_and_no_wait(accelerator):
    sequences = Sequences.random(accelerator, [3, 6], heads=(1, 1))
    pool, slots = pool_of(sequences), integers(accelerator.device, [2, -1])
    flags, starts = flags_on(accelerator, [True, False]), sequences.cu_seqlens
    for made_on, kernels in (("host", 3), ("device", 3), (None, 4)):
        tables = sequences.tables(made_on)
        call = lambda tables=tables: run(
            sequences,
            tables=tables,
            starts=starts,
            initial_state=pool,
            state_indices=slots,
            has_initial_state=flags,
            use_qk_l2norm_in_kernel=True,
        )
        counts = claims.expect_no_wait(accelerator, call, pinned_uploads=0)
        assert (counts["kernels"], counts["d2h"], counts["h2d_pinned"]) == (kernels, 0, 0)


@pytest.mark.gpu
@pytest.mark.parametrize("made_on", TABLES)
@pytest.mark.parametrize("lengths", [[4096, 4096], [64] * 128], ids=len)
def test_the_host_returns_at_once(accelerator, lengths, made_on):
    sequences = Sequences.random(accelerator, lengths, **MODEL, dtype=torch.bfloat16)
    states, tables, starts = sequences.states(), sequences.tables(made_on), sequences.cu_seqlens
    call = lambda: run(sequences, tables=tables, starts=starts, initial_state=states)
    claims.expect_host_returns(accelerator, call)


def test_overlapped_calls_each_go_on_from_the_last_states(accelerator):
    """Calls that are queued one after another continue from each other's states in one pool.
    Nothing is read before all calls are queued."""
    steps, device = 16 if accelerator.modelled else claims.OVERLAPPED_CALLS, accelerator.device
    whole = Sequences.random(accelerator, [steps, 2 * steps], heads=(1, 1), sizes=(16, 16))
    of_two = [torch.tensor([n, steps + 2 * n, steps + 2 * n + 1]) for n in range(steps)]
    inputs = [
        replace(
            whole,
            lengths=[1, 2],
            **{name: value.cpu()[:, tokens].to(device) for name, value in whole.args.items()},
        )
        for tokens in of_two
    ]
    pool, slots = pool_of(whole), integers(device, [4, 1])
    tables, starts = inputs[0].tables("host"), inputs[0].cu_seqlens
    call = lambda step: run(
        step, tables=tables, starts=starts, initial_state=pool, state_indices=slots
    )[0]
    results = claims.overlapped(accelerator, call, inputs, warm_up=False)
    right, states = whole.expected(pool_of(whole)[[4, 1]])
    for o, tokens in zip(results, of_two, strict=True):
        expect_close(o, right[:, tokens], torch.float32)
    expect_close(pool[[4, 1]], states, torch.float32)


def test_a_captured_call_is_replayed_with_other_lengths(accelerator):
    """A captured call gives the right outputs and states when it is replayed with other lengths,
    slots and flags: all are read on the device, and the tables are made there."""
    sequences, device = Sequences.random(accelerator, [70, 0, 60], heads=(1, 1)), accelerator.device
    pool, starts = pool_of(sequences), sequences.cu_seqlens
    slots, flags = integers(device, [0, 1, 2]), flags_on(accelerator, [True] * 3)
    out = ChunkTables(*(table.clone() for table in sequences.tables("device")))

    def step():
        prepare_chunk_tables_on_device(starts, 130, out=out)
        options = {"initial_state": pool, "state_indices": slots, "has_initial_state": flags}
        return run(sequences, tables=out, starts=starts, **options)[0]

    graph, o = claims.captured(accelerator, step)
    for lengths, at, has_state in (
        ([1, 1, 128], [3, 6, 5], [True, False, True]),
        ([130, 0, 0], [0, 1, -1], [False, True, True]),
        ([65, 64, 1], [2, -1, 3], [True, True, True]),
    ):
        other, was = replace(sequences, lengths=lengths), pool_of(sequences)
        pool.copy_(was)
        starts.copy_(other.cu_seqlens)
        slots.copy_(integers(device, at))
        flags.copy_(flags_on(accelerator, has_state))
        graph.replay()
        known = torch.tensor(has_state) & (torch.tensor(at) >= 0)
        right, states = other.expected(was.cpu()[at] * known[:, None, None, None])
        expect_close(o, right, torch.float32)
        for n, slot in enumerate(at):
            if slot >= 0 and lengths[n]:
                expect_close(pool[slot], states[n], torch.float32)
            elif slot >= 0:
                assert torch.equal(pool[slot].cpu(), was[slot].cpu())


@pytest.mark.gpu
def test_no_batch_of_a_service_is_compiled_anew(accelerator, monkeypatch):
    """No batch compiles a kernel again, once batches of few and of many chunks have run: lengths
    and offsets are not specialised on."""
    compiled = []
    note = lambda **of: compiled.append(of["repr"])

    def serve(lengths, offset, made_on):
        whole = Sequences.random(accelerator, lengths, (1, 2), (64, 64), torch.bfloat16)
        sequences = whole.in_one_projection(offset)
        slots = integers(accelerator.device, range(len(lengths)))
        pool = sequences.states(len(lengths) + offset)
        run(sequences, made_on, initial_state=pool, state_indices=slots)

    for made_on in TABLES:
        for lengths in ([1], [130] * 7, [640], [2500], [1] * 33):
            serve(lengths, 0, made_on)
    monkeypatch.setattr(triton.knobs.runtime, "jit_post_compile_hook", note)
    random = np.random.default_rng(3)
    for made_on in TABLES:
        for num_seqs in (1, 2, 3, 16, 17, 40):
            serve(random.integers(0, 300, num_seqs).tolist(), num_seqs % 5, made_on)
    assert compiled == []
