"""Masks in logical positions, evaluated on slots of the KV cache."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from solutions.flex_graph.buffers import PersistentBuffers
from solutions.flex_graph.mask import (
    BIDIRECTIONAL,
    CAUSAL,
    Mask,
    paged_mask_mod,
    sliding_window,
)
from solutions.flex_graph.tables.mask_check import check_logical_mask_mod

from .tables import LIMITS, MASKS, Batch, expected_places, expected_sight, on_device, some_batches

ROOT = Path(__file__).resolve().parents[2]


def tables_of(accelerator, batch, limits=LIMITS):
    """Returns the tables that a paged mask reads for this batch, filled in by plain Python."""
    tables, whole = PersistentBuffers(limits, accelerator.device), batch.in_all_rows(limits)
    whole.copy_into(tables)
    decoded = np.array(whole.seq_lens) - np.array(whole.query_lens)
    tables.decode_offset.copy_(on_device(accelerator, decoded))
    tables.physical_to_logical.copy_(on_device(accelerator, expected_places(whole, limits)))
    rows = [row for _, row, _ in batch.tokens()]
    tables.doc_ids[: len(rows)].copy_(on_device(accelerator, rows))
    return tables


def sight(accelerator, batch, mask, limits=LIMITS):
    """Returns the mask evaluated for every token and every slot of the cache, [num_tokens,
    num_slots] bool on the CPU."""
    mask_mod = paged_mask_mod(mask, tables_of(accelerator, batch, limits), limits)
    first = on_device(accelerator, [[0]])
    q = on_device(accelerator, np.arange(batch.num_tokens)[:, None])
    slots = on_device(accelerator, np.arange(limits.num_slots)[None])
    seen = mask_mod(first, first, q, slots)
    assert seen.dtype == torch.bool
    return seen.expand(batch.num_tokens, limits.num_slots).cpu().numpy()


@pytest.mark.parametrize("name", MASKS)
@given(batch=some_batches())
@settings(max_examples=30)
def test_a_token_sees_what_a_dense_mask_says(accelerator, name, batch):
    expected = expected_sight(batch, MASKS[name])
    assert np.array_equal(sight(accelerator, batch, MASKS[name]), expected)


def test_a_window_is_as_many_tokens_as_it_says(accelerator):
    batch = Batch.of([(1, 33, [3, 4, 5])])
    for tokens in (1, 2, 17, 33, 100):
        assert sight(accelerator, batch, sliding_window(tokens)).sum() == min(tokens, 33)
    batch = Batch.of([(33, 33, [3, 4, 5])])
    assert sight(accelerator, batch, Mask(causal=False, sliding_window=3))[16].sum() == 5


def test_a_chunk_s_queries_count_from_the_prompt_s_start(accelerator):
    """A later chunk of a prompt has positions of the prompt, not of the chunk, in a window too
    (vLLM #47332)."""
    batch = Batch.shuffled([(5, 40), (3, 3)])
    seen = sight(accelerator, batch, sliding_window(20))
    assert seen[:5].sum(1).tolist() == [20] * 5, "keys that each token of the chunk sees"
    right = expected_sight(batch, sliding_window(20))
    assert np.array_equal(seen, right), f"{(seen != right).sum()} pairs unlike in a dense mask"


def test_a_mask_of_ones_own_is_asked_by_position_and_by_the_rest_of_the_mask(accelerator):
    same_parity = lambda b, h, q, kv: (q + kv) % 2 == 0
    batch = Batch.shuffled([(1, 33), (18, 41)])
    for mask in (Mask(logical_mask_mod=same_parity), Mask(False, 20, same_parity)):
        seen = sight(accelerator, batch, mask)
        assert not (seen & ~expected_sight(batch, mask)).any()
        logical = on_device(accelerator, np.arange(70))
        dense = same_parity(None, None, logical[:, None], logical[None]).cpu().numpy()
        for token, row, position in batch.tokens():
            for place, block in enumerate(batch.table[row, : LIMITS.pages_of(batch.seq_lens[row])]):
                keys = np.arange(place * 16, min(place * 16 + 16, batch.seq_lens[row]))
                slots = block * 16 + keys % 16
                before = expected_sight(batch, mask)[token, slots]
                assert np.array_equal(seen[token, slots], before & dense[position, keys])


def test_it_is_never_asked_beyond_the_longest_request(accelerator):
    """The user's mask function only gets positions below the greatest length, also for other
    requests' blocks and padding tokens. It may read outside its tables beyond that."""
    asked = []

    def note(b, h, q, kv):
        asked.extend((q, kv))
        return (q >= 0) & (kv >= 0)

    sight(accelerator, Batch.of([(30, 70, [1, 2, 3, 4, 5])], num_tokens=40), Mask(True, None, note))
    for positions in asked:
        assert positions.min().item() >= 0
        assert positions.max().item() < LIMITS.max_model_len


def test_a_window_without_room_for_the_query_is_refused():
    for tokens in (0, -1):
        with pytest.raises(ValueError, match=f"a sliding window of {tokens} tokens"):
            sliding_window(tokens)


def test_masks_that_are_the_same_are_one_key():
    assert {CAUSAL: 1}[Mask()] == 1
    assert len({CAUSAL, BIDIRECTIONAL, sliding_window(8), sliding_window(9)}) == 4


ALLOWED = {
    "elementwise": lambda b, h, q, kv: (q - kv < 3) | (kv < 1),
    "of one index": lambda b, h, q, kv: kv >= 2,
    "one value": lambda b, h, q, kv: q.new_ones((), dtype=torch.bool),
    "like an index": lambda b, h, q, kv: torch.ones_like(q, dtype=torch.bool),
    "where": lambda b, h, q, kv: torch.where(q > 1, kv > 1, kv < 1),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_a_mask_that_can_be_part_of_a_kernel_is_let_through(accelerator, name):
    check_logical_mask_mod(Mask(logical_mask_mod=ALLOWED[name]), accelerator.device)


def test_so_is_one_that_looks_up_a_table_and_no_mask_at_all(accelerator):
    table = on_device(accelerator, [0, 0, 1])
    same_document = lambda b, h, q, kv: table[q] == table[kv]
    check_logical_mask_mod(Mask(logical_mask_mod=same_document), accelerator.device)
    check_logical_mask_mod(CAUSAL, accelerator.device)


WAITS = {
    "item": lambda b, h, q, kv: kv < q.max().item(),
    "if": lambda b, h, q, kv: kv < q if (q > 0).any() else kv > q,
    "int": lambda b, h, q, kv: kv < int(q.sum()),
    "a mask as an index": lambda b, h, q, kv: kv < kv[kv > 0].sum(),
    "nonzero": lambda b, h, q, kv: kv < q.nonzero().sum(),
}


@pytest.mark.parametrize("name", WAITS)
def test_trap_12_a_mask_that_waits_is_refused(accelerator, name):
    with pytest.raises(RuntimeError, match=r"logical_mask_mod makes the host wait .*torch\.where"):
        check_logical_mask_mod(Mask(logical_mask_mod=WAITS[name]), accelerator.device)


def test_a_mask_that_moves_data_between_devices_is_refused(accelerator):
    for away in (lambda q: q.cpu(), lambda q: torch.as_tensor(q.tolist())):
        mask = Mask(logical_mask_mod=lambda b, h, q, kv, away=away: away(q) < 3)
        with pytest.raises(RuntimeError, match=r"logical_mask_mod moves data to cpu"):
            check_logical_mask_mod(mask, accelerator.device)


def test_a_mask_that_makes_memory_is_refused(accelerator):
    device = accelerator.device
    for make in (
        lambda q: torch.tensor([0, 1, 2], device=device),
        lambda q: torch.tensor(2, device=device),
        lambda q: torch.arange(3, device=device),
        lambda q: torch.zeros(2, 3, device=device),
        lambda q: q.new_zeros(2, 3),
    ):
        mask = Mask(logical_mask_mod=lambda b, h, q, kv, make=make: make(q) < kv)
        with pytest.raises(
            ValueError, match=r"logical_mask_mod makes a tensor of .* once, outside"
        ):
            check_logical_mask_mod(mask, device)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda b, h, q, kv: kv - q, "returned torch.int32: return a tensor of torch.bool"),
        (lambda b, h, q, kv: True, "returned bool: return a tensor of torch.bool"),
        (lambda b, h, q, kv: None, "returned NoneType"),
        (lambda b, h, q, kv: (q == kv)[..., None], r"returned \[2, 3, 1\] for 2 queries and 3"),
        (lambda b, h, q, kv: (q == kv).flatten(), r"returned \[6\] for 2 queries and 3 keys"),
    ],
)
def test_a_mask_that_returns_anything_else_is_refused(accelerator, returned, message):
    with pytest.raises(ValueError, match=message):
        check_logical_mask_mod(Mask(logical_mask_mod=returned), accelerator.device)


TRACE = """
import torch
from torch.nn.attention.flex_attention import create_mask
from solutions.flex_graph.buffers import PersistentBuffers
from solutions.flex_graph.mask import Mask, paged_mask_mod
from tests.flex_graph.tables import LIMITS

buffers = PersistentBuffers(LIMITS, "cpu")
buffers.doc_ids[3:5] = 1
for name, numbers in {"query_start_loc": [0, 3, 5, 5, 5], "seq_lens": [20, 2, 0, 0],
                      "decode_offset": [17, 0, 0, 0]}.items():
    getattr(buffers, name).copy_(torch.tensor(numbers))
for row, block, place in ((0, 4, 0), (0, 2, 1), (1, 9, 0)):
    buffers.physical_to_logical[row, block] = place
even = torch.arange(LIMITS.max_model_len) % 2 == 0
for mask in (Mask(), Mask(False, 5), Mask(True, None, lambda b, h, q, kv: even[kv])):
    mask_mod = paged_mask_mod(mask, buffers, LIMITS)
    made = lambda: create_mask(mask_mod, 1, 1, 40, LIMITS.num_slots, device="cpu")[0, 0]
    compiled = torch.compile(made, fullgraph=True, backend="eager")()
    q, kv = torch.arange(40)[:, None], torch.arange(LIMITS.num_slots)[None]
    evaluated = mask_mod(q[:1], q[:1], q, kv)
    assert torch.equal(compiled, evaluated) and compiled.any()
print("traced")
"""


@pytest.mark.deep
def test_it_can_be_compiled_and_evaluated_on_tensors_of_indices_alike():
    """PyTorch's compiler can trace the mask, and the mask also takes tensors of indices. The test
    runs in a process of its own, since the compiler changes how other code waits."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path}
    result = subprocess.run(
        [sys.executable, "-c", TRACE],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout == "traced\n", result.stderr[-3000:]
