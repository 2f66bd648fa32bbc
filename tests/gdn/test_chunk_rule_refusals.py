"""Refusals of the chunked rule: before any launch, and with nothing changed."""

import pytest
import torch

from solutions.gdn.rule.chunk_gated_delta_rule import chunk_gated_delta_rule
from tests.common.refusals import changed, expect_refused

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


BAD_TOKENS = {
    r"q of shape \[69, 2, 16\]": dict.fromkeys(("q", "k"), lambda x: x[0]),
    r"q of shape \[1, 69, 2, 16\] and k of \[1, 69, 1, 16\]": {"k": lambda x: x[:, :, :1]},
    r"q of shape \[2, 69, 2, 16\]": dict.fromkeys(("q", "k"), lambda x: torch.cat([x, x])),
    r"v of shape \[1, 68, 4, 16\]: make it \[1, 69, HV, V\]": {"v": lambda x: x[:, 1:]},
    "HV a multiple of 2 key heads": dict.fromkeys(("v", "g", "beta"), lambda x: x[:, :, :3]),
    "q, k and v of torch.float32, torch.bfloat16": {"k": lambda x: x.bfloat16()},
    "q, k and v of torch.float64": dict.fromkeys(("q", "k", "v"), lambda x: x.double()),
    "keys of size 48": dict.fromkeys(("q", "k"), lambda x: torch.cat([x] * 3, 3)),
    "keys of size 256": dict.fromkeys(("q", "k"), lambda x: torch.cat([x] * 16, 3)),
    "keys of size 8": dict.fromkeys(("q", "k"), lambda x: x[..., :8].contiguous()),
    "keys of size 512": dict.fromkeys(("q", "k"), lambda x: torch.cat([x] * 32, 3)),
    "values of size 48": {"v": lambda x: torch.cat([x] * 3, 3)},
    "values of size 256": {"v": lambda x: torch.cat([x] * 16, 3)},
    "q of strides": {"q": transposed},
    "k of strides": {"k": transposed},
    "v of strides": {"v": transposed},
    "g of strides": {"g": transposed},
    "beta of strides": {"beta": transposed},
    "g is torch.bfloat16": {"g": lambda x: x.bfloat16()},
    r"g is torch.float32 \[1, 69, 2\]: make it \[1, 69, 4\]": {"g": lambda x: x[..., :2]},
    "beta is torch.float64": {"beta": lambda x: x.double()},
    r"beta is torch.float32 \[69, 4\]": {"beta": lambda x: x[0]},
    "v is on cpu, and q on (sim|cuda)": {"v": lambda x: x.cpu()},
    "g is on cpu, and q on (sim|cuda)": {"g": lambda x: x.cpu()},
}
BAD_SEQUENCES = {
    r"cu_seqlens is torch.int64 \[3\]": {"cu_seqlens": lambda x: x.long()},
    r"cu_seqlens is torch.int32 \[1, 3\]": {"cu_seqlens": lambda x: x[None]},
    r"cu_seqlens is torch.int32 \[0\]": {"cu_seqlens": lambda x: x[:0]},
    r"cu_seqlens is .*\[2\] .*contiguous": {"cu_seqlens": lambda x: x[::2]},
    "cu_seqlens is .* on cpu: make it .* on (sim|cuda)": {"cu_seqlens": lambda x: x.cpu()},
    "chunk_indices alone": {"chunk_offsets": None},
    "chunk_offsets alone": {"chunk_indices": None},
    "chunk_indices is on cpu, and the tokens on (sim|cuda)": {"chunk_indices": lambda x: x.cpu()},
    "chunk_offsets is on cpu": {"chunk_offsets": lambda x: x.cpu()},
    "chunk_indices is torch.int64": {"chunk_indices": lambda x: x.long()},
    r"chunk_indices is torch.int32 \[6\]": {"chunk_indices": lambda x: x.flatten()},
    "chunk_indices is .* with strides": {"chunk_indices": transposed},
    r"\[1, 2\]: 2 sequences with 69 tokens have 2 to 3 chunks of 64": {
        "chunk_indices": lambda x: x[:1]
    },
    r"\[6, 2\]: 2 sequences with 69 tokens have 2 to 3 chunks of 64": {
        "chunk_indices": lambda x: torch.cat([x, x])
    },
    "chunk_offsets is torch.int32": {"chunk_offsets": lambda x: x.int()},
    r"chunk_offsets is torch.int64 \[2\]: for 2 sequences make it torch.int64 \[3\]": {
        "chunk_offsets": lambda x: x[1:]
    },
    "69 tokens in 0 sequences": {
        "cu_seqlens": lambda x: x[:1],
        **dict.fromkeys(("chunk_indices", "chunk_offsets", "initial_state")),
        **dict.fromkeys(("state_indices", "has_initial_state")),
    },
}
BAD_STATES = {
    "state_indices without initial_state": {"initial_state": None},
    "has_initial_state without initial_state": {"initial_state": None, "state_indices": None},
    "state_indices is torch.int64": {"state_indices": lambda x: x.long()},
    r"state_indices is torch.int32 \[1\]: for 2 sequences": {"state_indices": lambda x: x[:1]},
    r"state_indices is torch.int32 \[2, 1\]": {"state_indices": lambda x: x[:, None]},
    "has_initial_state is torch.int32": {"has_initial_state": lambda x: x.int()},
    r"has_initial_state is torch.bool \[3\]": {
        "has_initial_state": lambda x: torch.cat([x, x])[:3]
    },
    "initial_state is torch.float16": {"initial_state": lambda x: x.half()},
    r"initial_state is .*\[5, 4, 16, 8\].*\[num_slots, 4, 16, 16\]": {
        "initial_state": lambda x: x[..., :8]
    },
    r"initial_state is .*\[5, 2, 16, 16\].*make it": {"initial_state": lambda x: x[:, :2]},
    "each state contiguous": {"initial_state": transposed},
    "initial_state is on cpu, and the tokens on (sim|cuda)": {"initial_state": lambda x: x.cpu()},
    "state_indices is on cpu": {"state_indices": lambda x: x.cpu()},
    r"initial_state is .*\[5, 4, 16, 16\].*\[2, 4, 16, 16\]": {"state_indices": None},
}
BAD_ARGUMENTS = BAD_TOKENS | BAD_SEQUENCES | BAD_STATES


def test_good_arguments_are_not_refused(accelerator):
    chunk_gated_delta_rule(**arguments_of(accelerator))


@pytest.mark.parametrize("message", BAD_ARGUMENTS)
def test_what_does_not_fit_is_refused(accelerator, message):
    args = arguments_of(accelerator)
    bad = changed(args, BAD_ARGUMENTS[message])
    call = lambda: chunk_gated_delta_rule(**bad)
    expect_refused(accelerator, call, message, unchanged=(args["initial_state"],))


@pytest.mark.parametrize("message", BAD_TOKENS | BAD_STATES)
def test_nothing_is_made_for_what_is_refused(accelerator, message):
    """A refused call queues nothing on the device, not even the starts and tables that it would
    have to make."""
    args = arguments_of(accelerator)
    args |= {"chunk_indices": None, "chunk_offsets": None}
    bad = changed(args, BAD_ARGUMENTS[message])
    call = lambda: chunk_gated_delta_rule(**bad)
    expect_refused(accelerator, call, message, unchanged=())
