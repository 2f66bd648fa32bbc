"""Refusals of the chunked rule: before any launch, and with nothing changed."""

import pytest
import torch

from solutions.gdn.rule.chunk_gated_delta_rule import chunk_gated_delta_rule
from tests.common.refusals import expect_refused

from .sequences import Sequences, integers


def arguments_of(accelerator):
    """Returns valid arguments of the chunked rule, by name, for two sequences in a pool of five
    slots."""
    sequences = Sequences.random(accelerator, [3, 66], heads=(2, 4), sizes=(16, 16))
    rows, offsets = sequences.tables("host")
    return sequences.args | {
        "initial_state": sequences.states(5),
        "output_final_state": True,
        "cu_seqlens": sequences.cu_seqlens,
        "chunk_indices": rows,
        "chunk_offsets": offsets,
        "state_indices": integers(accelerator.device, [4, 2]),
        "has_initial_state": torch.tensor([True, False]).to(accelerator.device),
    }


def transposed(x):
    """Returns the same numbers with the last two dimensions swapped in memory."""
    return x.transpose(-1, -2).contiguous().transpose(-1, -2)


def each(*names, change):
    return lambda args: {name: change(args[name]) for name in names}


BAD_TOKENS = {
    r"q of shape \[69, 2, 16\]": each("q", "k", change=lambda x: x[0]),
    r"q of shape \[1, 69, 2, 16\] and k of \[1, 69, 1, 16\]": each(
        "k", change=lambda k: k[:, :, :1]
    ),
    r"q of shape \[2, 69, 2, 16\]": each("q", "k", change=lambda x: torch.cat([x, x])),
    r"v of shape \[1, 68, 4, 16\]: make it \[1, 69, HV, V\]": each("v", change=lambda v: v[:, 1:]),
    "HV a multiple of 2 key heads": each("v", "g", "beta", change=lambda x: x[:, :, :3]),
    "q, k and v of torch.float32, torch.bfloat16": each("k", change=lambda k: k.bfloat16()),
    "q, k and v of torch.float64": each("q", "k", "v", change=lambda x: x.double()),
    "keys of size 48": each("q", "k", change=lambda x: torch.cat([x] * 3, 3)),
    "keys of size 256": each("q", "k", change=lambda x: torch.cat([x] * 16, 3)),
    "keys of size 8": each("q", "k", change=lambda x: x[..., :8].contiguous()),
    "keys of size 512": each("q", "k", change=lambda x: torch.cat([x] * 32, 3)),
    "values of size 48": each("v", change=lambda v: torch.cat([v] * 3, 3)),
    "values of size 256": each("v", change=lambda v: torch.cat([v] * 16, 3)),
    "q of strides": each("q", change=transposed),
    "k of strides": each("k", change=transposed),
    "v of strides": each("v", change=transposed),
    "g of strides": each("g", change=transposed),
    "beta of strides": each("beta", change=transposed),
    "g is torch.bfloat16": each("g", change=lambda g: g.bfloat16()),
    r"g is torch.float32 \[1, 69, 2\]: make it \[1, 69, 4\]": each(
        "g", change=lambda g: g[..., :2]
    ),
    "beta is torch.float64": each("beta", change=lambda beta: beta.double()),
    r"beta is torch.float32 \[69, 4\]": each("beta", change=lambda beta: beta[0]),
    "v is on cpu, and q on (sim|cuda)": each("v", change=lambda v: v.cpu()),
    "g is on cpu, and q on (sim|cuda)": each("g", change=lambda g: g.cpu()),
}
BAD_SEQUENCES = {
    r"cu_seqlens is torch.int64 \[3\]": each("cu_seqlens", change=lambda starts: starts.long()),
    r"cu_seqlens is torch.int32 \[1, 3\]": each("cu_seqlens", change=lambda starts: starts[None]),
    r"cu_seqlens is torch.int32 \[0\]": each("cu_seqlens", change=lambda starts: starts[:0]),
    r"cu_seqlens is .*\[2\] .*contiguous": each("cu_seqlens", change=lambda starts: starts[::2]),
    "cu_seqlens is .* on cpu: make it .* on (sim|cuda)": each(
        "cu_seqlens", change=lambda starts: starts.cpu()
    ),
    "chunk_indices alone": lambda args: {"chunk_offsets": None},
    "chunk_offsets alone": lambda args: {"chunk_indices": None},
    "chunk_indices is on cpu, and the tokens on (sim|cuda)": each(
        "chunk_indices", change=lambda rows: rows.cpu()
    ),
    "chunk_offsets is on cpu": each("chunk_offsets", change=lambda offsets: offsets.cpu()),
    "chunk_indices is torch.int64": each("chunk_indices", change=lambda rows: rows.long()),
    r"chunk_indices is torch.int32 \[6\]": each(
        "chunk_indices", change=lambda rows: rows.flatten()
    ),
    "chunk_indices is .* with strides": each("chunk_indices", change=transposed),
    r"\[1, 2\]: 2 sequences with 69 tokens have 2 to 3 chunks of 64": each(
        "chunk_indices", change=lambda rows: rows[:1]
    ),
    r"\[6, 2\]: 2 sequences with 69 tokens have 2 to 3 chunks of 64": each(
        "chunk_indices", change=lambda rows: torch.cat([rows, rows])
    ),
    "chunk_offsets is torch.int32": each("chunk_offsets", change=lambda offsets: offsets.int()),
    r"chunk_offsets is torch.int64 \[2\]: for 2 sequences make it torch.int64 \[3\]": each(
        "chunk_offsets", change=lambda offsets: offsets[1:]
    ),
    "69 tokens in 0 sequences": lambda args: {
        "cu_seqlens": args["cu_seqlens"][:1],
        **dict.fromkeys(("chunk_indices", "chunk_offsets", "initial_state")),
        **dict.fromkeys(("state_indices", "has_initial_state")),
    },
}
BAD_STATES = {
    "state_indices without initial_state": lambda args: {"initial_state": None},
    "has_initial_state without initial_state": lambda args: {
        "initial_state": None,
        "state_indices": None,
    },
    "state_indices is torch.int64": each("state_indices", change=lambda slots: slots.long()),
    r"state_indices is torch.int32 \[1\]: for 2 sequences": each(
        "state_indices", change=lambda slots: slots[:1]
    ),
    r"state_indices is torch.int32 \[2, 1\]": each(
        "state_indices", change=lambda slots: slots[:, None]
    ),
    "has_initial_state is torch.int32": each("has_initial_state", change=lambda flags: flags.int()),
    r"has_initial_state is torch.bool \[3\]": each(
        "has_initial_state", change=lambda flags: torch.cat([flags, flags])[:3]
    ),
    "initial_state is torch.float16": each("initial_state", change=lambda states: states.half()),
    r"initial_state is .*\[5, 4, 16, 8\].*\[num_slots, 4, 16, 16\]": each(
        "initial_state", change=lambda states: states[..., :8]
    ),
    r"initial_state is .*\[5, 2, 16, 16\].*make it": each(
        "initial_state", change=lambda states: states[:, :2]
    ),
    "each state contiguous": each("initial_state", change=transposed),
    "initial_state is on cpu, and the tokens on (sim|cuda)": each(
        "initial_state", change=lambda states: states.cpu()
    ),
    "state_indices is on cpu": each("state_indices", change=lambda slots: slots.cpu()),
    r"initial_state is .*\[5, 4, 16, 16\].*\[2, 4, 16, 16\]": lambda args: {"state_indices": None},
}
BAD_ARGUMENTS = BAD_TOKENS | BAD_SEQUENCES | BAD_STATES


def test_good_arguments_are_not_refused(accelerator):
    chunk_gated_delta_rule(**arguments_of(accelerator))


@pytest.mark.parametrize("message", BAD_ARGUMENTS)
def test_what_does_not_fit_is_refused(accelerator, message):
    args = arguments_of(accelerator)
    bad = args | BAD_ARGUMENTS[message](args)
    call = lambda: chunk_gated_delta_rule(**bad)
    expect_refused(accelerator, call, message, unchanged=(args["initial_state"],))


@pytest.mark.parametrize("message", BAD_TOKENS | BAD_STATES)
def test_nothing_is_made_for_what_is_refused(accelerator, message):
    """A refused call queues nothing on the device, not even the starts and tables that it would
    have to make."""
    args = arguments_of(accelerator)
    args |= {"chunk_indices": None, "chunk_offsets": None} | BAD_ARGUMENTS[message](args)
    call = lambda: chunk_gated_delta_rule(**args)
    expect_refused(accelerator, call, message, unchanged=())
