"""The six single ops: each compared with its definition, and all in a row with the rule."""

from dataclasses import replace

import pytest
import torch

from solutions.gdn.device_tables import prepare_chunk_tables_on_device
from solutions.gdn.host_tables import upload_chunk_tables
from solutions.gdn.rule.chunk_gated_delta_rule import chunk_gated_delta_rule
from solutions.gdn.rule.chunks import ChunkTables, most_chunks
from solutions.gdn.rule.single_ops import (
    chunk_fwd_o,
    chunk_gated_delta_rule_fwd_h,
    chunk_local_cumsum,
    chunk_scaled_dot_kkt_fwd,
    recompute_w_u_fwd,
    solve_tril,
)
from tests.common import claims
from tests.common.refusals import expect_refused

from .batches import TABLES
from .chunks import starts_of, tables_of
from .oracle import recurrence
from .sequences import AROUND_A_CHUNK, TOLERANCE, Sequences, expect_close, integers

C = 64
EXACT = 2e-6
"""The largest relative error of a few dozen float32 operations."""


def in_a_row(
    sequences, made_on="host", states=None, tables=None, starts=None, sums=None, **options
):
    """Runs the six ops in a row, all with the same tables, and returns (o, final states). `sums`
    replaces the first op's output."""
    starts = sequences.cu_seqlens if starts is None else starts
    rows, offsets = sequences.tables(made_on) if tables is None else tables
    q, k, v, g, beta = sequences.args.values()
    d = chunk_local_cumsum(g, C, starts, rows) if sums is None else sums
    A = chunk_scaled_dot_kkt_fwd(k, d, beta, starts, rows)
    A = solve_tril(A, starts, rows, output_dtype=k.dtype)
    w, u = recompute_w_u_fwd(k, v, beta, d, A, starts, rows)
    h, v_new, final = chunk_gated_delta_rule_fwd_h(k, w, u, d, states, True, starts, rows, offsets)
    return chunk_fwd_o(q, k, v_new, h, d, cu_seqlens=starts, chunk_indices=rows, **options), final


def chunks_of(sequences, chunk_size=C):
    """Yields for each chunk the slice of its tokens."""
    for n, chunk in tables_of(sequences.lengths, chunk_size)[0]:
        rows = sequences.rows(n)
        first = rows.start + chunk * chunk_size
        yield slice(first, min(first + chunk_size, rows.stop))


def sums_of(sequences, chunk_size=C):
    """Returns the sums of the gates from the beginning of each chunk, [1, T, HV] on the CPU."""
    g = sequences.g.cpu()
    return torch.cat([g[:, chunk].cumsum(1) for chunk in chunks_of(sequences, chunk_size)], 1)


def by_heads(x, sequences):
    """Returns [HV, tokens, ...] float32 on the CPU; heads of keys are repeated so that each value
    head has one."""
    x = x.cpu().float()
    return x.repeat_interleave(sequences.v.shape[2] // x.shape[2], 2)[0].transpose(0, 1)


EACH_TYPE_AND_TABLE = [(dtype, "host") for dtype in TOLERANCE] + [
    (torch.float32, "device"),
    (torch.float32, None),
]


@pytest.mark.parametrize(("dtype", "made_on"), EACH_TYPE_AND_TABLE, ids=str)
def test_in_a_row_they_are_the_rule(accelerator, dtype, made_on):
    sequences = Sequences.random(accelerator, AROUND_A_CHUNK, dtype=dtype)
    states = sequences.states()
    o, final = in_a_row(sequences, made_on, states)
    right, right_states = sequences.expected(states)
    assert o.dtype == dtype and final.dtype == torch.float32
    expect_close(o, right, dtype)
    expect_close(final, right_states, dtype)
    of_rule, states_of_rule = chunk_gated_delta_rule(
        **sequences.args,
        initial_state=states,
        output_final_state=True,
        cu_seqlens=sequences.cu_seqlens,
    )
    expect_close(o, of_rule.cpu(), dtype)
    expect_close(final, states_of_rule.cpu(), dtype)


@pytest.mark.parametrize("made_on", ["host", None])
@pytest.mark.parametrize("end", [70, 5000])
def test_a_sequence_that_goes_on_behind_the_last_token_ends_there(accelerator, end, made_on):
    sequences = Sequences.random(accelerator, [3, 66])
    states = sequences.states()
    starts = integers(accelerator.device, [0, 3, end])
    tables = None if made_on == "host" else ChunkTables(None, None)
    sums = chunk_local_cumsum(sequences.g, C, sequences.cu_seqlens)
    o, final = in_a_row(sequences, states=states, tables=tables, starts=starts, sums=sums)
    right, right_states = sequences.expected(states)
    expect_close(o, right, torch.float32)
    expect_close(final, right_states, torch.float32)


@pytest.mark.parametrize("heads", [(1, 1), (2, 6), (3, 3)], ids=str)
def test_any_number_of_heads(accelerator, heads):
    sequences = Sequences.random(accelerator, [3, 66], heads, sizes=(32, 16))
    o, final = in_a_row(sequences)
    right, right_states = sequences.expected()
    expect_close(o, right, torch.float32)
    expect_close(final, right_states, torch.float32)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("made_on", TABLES)
def test_heads_as_large_as_a_models(accelerator, dtype, made_on):
    lengths = [1, 63, 0, 64, 65, 129, 700]
    sequences = Sequences.random(accelerator, lengths, (4, 8), (128, 128), dtype)
    states = sequences.states()
    o, final = in_a_row(sequences, made_on, states)
    right, right_states = sequences.expected(states)
    expect_close(o, right, dtype)
    expect_close(final, right_states, dtype)


@pytest.mark.parametrize("lengths", [[], [0], [0, 0], [1], [C - 1], [C], [C + 1]], ids=str)
def test_trap_7_the_smallest_batches(accelerator, lengths):
    sequences = Sequences.random(accelerator, lengths, heads=(1, 1))
    states = sequences.states()
    right, right_states = sequences.expected(states)
    for made_on in TABLES:
        o, final = in_a_row(sequences, made_on, states)
        expect_close(o, right, torch.float32)
        expect_close(final, right_states, torch.float32)


def test_without_starts_there_is_one_sequence(accelerator):
    sequences = Sequences.random(accelerator, [70])
    q, k, v, g, beta = sequences.args.values()
    d = chunk_local_cumsum(g, C, None)
    A = solve_tril(chunk_scaled_dot_kkt_fwd(k, d, beta, None), None)
    w, u = recompute_w_u_fwd(k, v, beta, d, A, None)
    h, v_new, final = chunk_gated_delta_rule_fwd_h(k, w, u, d)
    assert final is None
    o = chunk_fwd_o(q, k, v_new, h, d, scale=3.0)
    expect_close(o, sequences.expected(scale=3.0)[0], torch.float32)


@pytest.mark.parametrize("chunk_size", [16, 32, 64, 128, 1024])
def test_sums_start_anew_in_each_chunk(accelerator, chunk_size):
    sequences = Sequences.random(accelerator, [1, 15, 16, 0, 17, 129], heads=(1, 3))
    tables = upload_chunk_tables(starts_of(sequences.lengths), accelerator.device, chunk_size)
    for rows in (tables.chunk_indices, None):
        sums = chunk_local_cumsum(sequences.g, chunk_size, sequences.cu_seqlens, rows)
        assert sums.dtype == torch.float32
        torch.testing.assert_close(sums.cpu(), sums_of(sequences, chunk_size))


def test_without_starts_sums_are_of_one_sequence(accelerator):
    sequences = Sequences.random(accelerator, [70])
    sums = chunk_local_cumsum(sequences.g, C, None)
    torch.testing.assert_close(sums.cpu(), sums_of(sequences, C))


def test_products_of_each_token_with_those_before_it(accelerator):
    sequences = Sequences.random(accelerator, [3, 70], heads=(2, 4))
    d = chunk_local_cumsum(sequences.g, C, sequences.cu_seqlens)
    A = chunk_scaled_dot_kkt_fwd(sequences.k, d, sequences.beta, sequences.cu_seqlens)
    assert A.dtype == torch.float32
    assert A.shape == (1, 73, 4, C)
    keys, beta, sums = (by_heads(x, sequences) for x in (sequences.k, sequences.beta, d))
    for chunk in chunks_of(sequences):
        length = chunk.stop - chunk.start
        decay = (sums[:, chunk, None] - sums[:, None, chunk]).exp()
        right = beta[:, chunk, None] * decay * (keys[:, chunk] @ keys[:, chunk].transpose(1, 2))
        found = A[0, chunk].cpu().transpose(0, 1)
        torch.testing.assert_close(found[:, :, :length], right.tril(-1), atol=EXACT, rtol=EXACT)
        assert not found[:, :, length:].any()


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("chunk_size", [16, 32, 64])
def test_the_inverse_of_what_is_below_the_diagonal(accelerator, chunk_size, dtype):
    """solve_tril inverts each chunk's unit triangle from the values below the diagonal; the rest of
    its input may be NaN."""
    sequences = Sequences.random(accelerator, [1, chunk_size + 3])
    A = torch.full((1, sum(sequences.lengths), 2, chunk_size), torch.nan)
    right = torch.zeros_like(A)
    generator = torch.Generator().manual_seed(5)
    for chunk in chunks_of(sequences, chunk_size):
        length = chunk.stop - chunk.start
        lower = torch.randn(2, length, length, generator=generator).tril(-1) * 0.3
        is_lower = torch.ones(length, length).tril(-1) > 0
        A[0, chunk, :, :length] = lower.where(is_lower, torch.nan).transpose(0, 1)
        inverse = torch.linalg.inv(torch.eye(length) + lower)
        right[0, chunk, :, :length] = inverse.transpose(0, 1)
    found = solve_tril(A.to(accelerator.device), sequences.cu_seqlens, output_dtype=dtype)
    assert found.dtype == dtype
    expect_close(found, right, dtype)


def test_w_and_u_of_each_chunk(accelerator):
    sequences = Sequences.random(accelerator, [3, 70], heads=(2, 4))
    generator = torch.Generator().manual_seed(5)
    A = torch.randn(1, 73, 4, C, generator=generator).to(accelerator.device)
    d = chunk_local_cumsum(sequences.g, C, sequences.cu_seqlens)
    k, v, beta = sequences.k, sequences.v, sequences.beta
    w, u = recompute_w_u_fwd(k, v, beta, d, A, sequences.cu_seqlens)
    keys, values, beta, sums = (by_heads(x, sequences) for x in (k, v, beta, d))
    for chunk in chunks_of(sequences):
        of_tokens = by_heads(A, sequences)[:, chunk, : chunk.stop - chunk.start]
        strength = beta[:, chunk, None]
        right_u = of_tokens @ (strength * values[:, chunk])
        right_w = of_tokens @ (strength * sums[:, chunk, None].exp() * keys[:, chunk])
        expect_close(u[0, chunk].transpose(0, 1), right_u, torch.float32)
        expect_close(w[0, chunk].transpose(0, 1), right_w, torch.float32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_states_before_each_chunk(accelerator, dtype):
    """The states before each chunk equal the recurrence's there, from initial states in float32 or
    bfloat16."""
    sequences = Sequences.random(accelerator, [3, 0, 130])
    states, starts = sequences.states(dtype=dtype), sequences.cu_seqlens
    q, k, v, g, beta = sequences.args.values()
    d = chunk_local_cumsum(g, C, starts)
    A = solve_tril(chunk_scaled_dot_kkt_fwd(k, d, beta, starts), starts)
    w, u = recompute_w_u_fwd(k, v, beta, d, A, starts)
    h, _, _ = chunk_gated_delta_rule_fwd_h(k, w, u, d, states, cu_seqlens=starts)
    assert h.shape == (1, most_chunks(3, 133), *sequences.state_shape)
    for row, (n, chunk) in enumerate(tables_of(sequences.lengths, C)[0]):
        first = sequences.rows(n).start
        before = [x[:, first : first + chunk * C] for x in (q, k, v, g, beta)]
        _, right = recurrence(*before, initial_state=states[n : n + 1])
        expect_close(h[0, row], right[0], torch.float32)


def test_states_with_gaps_between_them(accelerator):
    sequences = Sequences.random(accelerator, [3, 65])
    states = torch.full((4, 3, 32, 16), torch.nan).to(accelerator.device)[::2, :2]
    states.copy_(sequences.states())
    right, right_states = sequences.expected(states)
    o, final = in_a_row(sequences, states=states)
    expect_close(o, right, torch.float32)
    expect_close(final, right_states, torch.float32)


def test_parts_of_a_wider_projection(accelerator):
    sequences = Sequences.random(accelerator, [3, 66], heads=(2, 4)).in_one_projection()
    for x in (sequences.q, sequences.k, sequences.v, sequences.beta):
        assert not x.is_contiguous()
    expect_close(in_a_row(sequences)[0], sequences.expected()[0], torch.float32)


def test_nobody_waits_and_nothing_is_uploaded(accelerator):
    sequences = Sequences.random(accelerator, [3, 6])
    starts = sequences.cu_seqlens
    for made_on, kernels in (("host", 9), ("device", 9), (None, 15)):
        # The output needs its sums head by head, and norms of one.
        tables = sequences.tables(made_on)
        call = lambda tables=tables: in_a_row(sequences, tables=tables, starts=starts)
        claims.expect_no_wait(accelerator, call, pinned_uploads=0)
        counts = claims.counts_of(accelerator, call)
        assert (counts["kernels"], counts["d2h"]) == (kernels, 0)


@pytest.mark.gpu
@pytest.mark.parametrize("made_on", TABLES)
def test_the_host_returns_at_once(accelerator, made_on):
    sequences = Sequences.random(accelerator, [3, 66], (4, 8), (128, 128), torch.bfloat16)
    starts, tables = sequences.cu_seqlens, sequences.tables(made_on)
    call = lambda: in_a_row(sequences, tables=tables, starts=starts)
    claims.expect_host_returns(accelerator, call)


def test_a_captured_row_is_replayed_with_other_lengths(accelerator):
    sequences = Sequences.random(accelerator, [70, 0, 60], heads=(1, 1))
    states, starts = sequences.states(), sequences.cu_seqlens
    out = ChunkTables(*(table.clone() for table in sequences.tables("device")))

    def step():
        prepare_chunk_tables_on_device(starts, 130, out=out)
        return in_a_row(sequences, states=states, tables=out, starts=starts)

    step()
    graph = accelerator.graph()
    with graph.capture():
        o, final = step()
    for lengths in ([1, 1, 128], [130, 0, 0], [65, 64, 1]):
        other = replace(sequences, lengths=lengths)
        starts.copy_(other.cu_seqlens)
        graph.replay()
        right, right_states = other.expected(states)
        expect_close(o, right, torch.float32)
        expect_close(final, right_states, torch.float32)


def arguments_of(accelerator):
    """Returns valid arguments of each op, by name, for two sequences."""
    sequences = Sequences.random(accelerator, [3, 66], heads=(2, 4), sizes=(16, 16))
    q, k, v, g, beta = sequences.args.values()
    rows, offsets = sequences.tables("host")
    numbers = lambda *shape: torch.zeros(1, *shape, device=accelerator.device)
    shared = {"cu_seqlens": sequences.cu_seqlens, "chunk_indices": rows}
    A, w, h = numbers(69, 4, C), numbers(69, 4, 16), numbers(len(rows), 4, 16, 16)
    states = {"initial_state": sequences.states(), "chunk_offsets": offsets}
    return {
        "cumsum": {"g": g, "chunk_size": C} | shared,
        "kkt": {"k": k, "g": g, "beta": beta} | shared,
        "tril": {"A": A} | shared,
        "w_u": {"k": k, "v": v, "beta": beta, "g": g, "A": A} | shared,
        "h": {"k": k, "w": w, "u": w, "g": g} | states | shared,
        "o": {"q": q, "k": k, "v_new": w, "h": h, "g": g} | shared,
    }


OPS = {
    "cumsum": chunk_local_cumsum,
    "kkt": chunk_scaled_dot_kkt_fwd,
    "tril": solve_tril,
    "w_u": recompute_w_u_fwd,
    "h": chunk_gated_delta_rule_fwd_h,
    "o": chunk_fwd_o,
}


def half(x):
    return x.bfloat16()


def wide(x):
    """Returns `x` with heads of three times the size, which is no power of two."""
    return torch.cat([x] * 3, -1)


def spread(x):
    """Returns the same numbers in a tensor whose last dimension has a stride of 2, which the ops
    refuse."""
    return torch.stack([x, x], -1)[..., 0]


BAD_ARGUMENTS = [
    ("cumsum", r"g is torch.bfloat16 \[1, 69, 4\]", "g", half),
    ("cumsum", r"g is torch.float32 \[69, 4\] .*make it \[1, T, HV\]", "g", lambda g: g[0]),
    ("cumsum", "g is .*contiguous", "g", spread),
    ("cumsum", "chunks of 48 tokens", "chunk_size", lambda _: 48),
    ("cumsum", "chunks of 8 tokens", "chunk_size", lambda _: 8),
    ("kkt", r"k is torch.float32 \[69, 2, 16\]", "k", lambda k: k[0]),
    ("kkt", "k is torch.float64", "k", lambda k: k.double()),
    ("kkt", "k is .*what belongs to one token contiguous", "k", spread),
    ("kkt", "keys of size 48", "k", wide),
    ("kkt", "g is torch.bfloat16", "g", half),
    ("kkt", "3 value heads for 2 key heads", "g", lambda g: g[:, :, :3].contiguous()),
    ("kkt", r"beta is .*\[1, 69, 3\]", "beta", lambda beta: beta[:, :, :3]),
    ("kkt", "beta is .* on cpu: make it .* on (sim|cuda)", "beta", lambda beta: beta.cpu()),
    ("tril", "A is torch.bfloat16", "A", half),
    ("tril", "A is .*contiguous", "A", spread),
    ("tril", "A of chunks of 192 tokens", "A", wide),
    ("tril", "output_dtype torch.float64", "output_dtype", lambda _: torch.float64),
    ("w_u", r"v is .*\[1, 69, 4, 16\].*make it \[1, 69, HV, V\].* torch.float32", "v", half),
    ("w_u", "values of size 48", "v", wide),
    ("w_u", "beta is torch.float64", "beta", lambda beta: beta.double()),
    ("w_u", r"g is .*\[1, 68, 4\]", "g", lambda g: g[:, 1:]),
    ("w_u", r"A is .*make it \[1, 69, 4, 64\]", "A", lambda A: A[..., :32].contiguous()),
    ("h", "w is torch.bfloat16.*torch.float32", "w", half),
    ("h", "u is .*contiguous", "u", spread),
    ("h", "values of size 48", "u", wide),
    ("h", r"g is .*make it \[1, 69, 4\]", "g", lambda g: g[:, :, :2].contiguous()),
    ("h", "initial_state is torch.float16", "initial_state", lambda states: states.half()),
    ("h", r"make it float32 or bfloat16 \[2, 4", "initial_state", lambda states: states[:1]),
    ("h", "chunk_indices alone", "chunk_offsets", lambda _: None),
    ("h", "chunk_offsets alone", "chunk_indices", lambda _: None),
    ("h", r"chunk_offsets is torch.int64 \[2\]", "chunk_offsets", lambda offsets: offsets[:2]),
    ("o", "q is torch.int32", "q", lambda q: q.int()),
    ("o", "k is torch.bfloat16", "k", half),
    ("o", r"v_new is .*\[1, 68, 4, 16\]", "v_new", lambda v_new: v_new[:, 1:]),
    ("o", r"h is .*make it \[1, 3, 4, 16, 16\]", "h", lambda h: h[:, :2]),
    ("o", "g is torch.bfloat16", "g", half),
]


@pytest.mark.parametrize(("op", "message", "name", "change"), BAD_ARGUMENTS)
def test_what_does_not_fit_is_refused(accelerator, op, message, name, change):
    arguments = arguments_of(accelerator)[op]
    bad = arguments | {name: change(arguments.get(name))}
    expect_refused(accelerator, lambda: OPS[op](**bad), message, unchanged=())


BAD_TABLES = {
    r"chunk_indices is torch.int32 \[1, 2\]: 2 sequences with 69 tokens have 2 to 3": (
        "chunk_indices",
        lambda rows: rows[:1],
    ),
    "chunk_indices is torch.int64": ("chunk_indices", lambda rows: rows.long()),
    "chunk_indices is on cpu": ("chunk_indices", lambda rows: rows.cpu()),
    r"cu_seqlens is torch.int64 \[3\]": ("cu_seqlens", lambda starts: starts.long()),
    "cu_seqlens is .* on cpu": ("cu_seqlens", lambda starts: starts.cpu()),
    "cu_seqlens is .*contiguous": ("cu_seqlens", spread),
    r"cu_seqlens is torch.int32 \[0\]": ("cu_seqlens", lambda starts: starts[:0]),
}


@pytest.mark.parametrize("message", BAD_TABLES)
@pytest.mark.parametrize("op", OPS)
def test_every_op_refuses_tables_that_cannot_be_its_own(accelerator, op, message):
    arguments, (name, change) = arguments_of(accelerator)[op], BAD_TABLES[message]
    bad = arguments | {name: change(arguments[name])}
    expect_refused(accelerator, lambda: OPS[op](**bad), message, unchanged=())


def test_states_of_other_tables_than_the_outputs_are_refused(accelerator):
    """chunk_fwd_o refuses states with as many rows as a table of the lengths has. Without a table
    it assumes the most rows that the lengths could need: here one more."""
    sequences = Sequences.random(accelerator, [33, 36])
    rows, starts, d = sequences.tables("host")[0], sequences.cu_seqlens, sequences.g
    h = torch.zeros(1, len(rows), *sequences.state_shape, device=accelerator.device)
    call = lambda: chunk_fwd_o(sequences.q, sequences.k, sequences.v, h, d, cu_seqlens=starts)
    expect_refused(accelerator, call, r"h is .*\[1, 2, 2, 32, 16\].*\[1, 3, 2, 32, 16\]", ())


def test_good_arguments_are_not_refused(accelerator):
    for op, arguments in arguments_of(accelerator).items():
        OPS[op](**arguments)
