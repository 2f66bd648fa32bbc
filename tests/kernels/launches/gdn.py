"""The launches of the kernels of `solutions.gdn`, except those of the chunked rule."""

from solutions.gdn import device_tables
from solutions.gdn.model import gated_norm, gating
from solutions.gdn.rule import recurrent
from solutions.sync_free.kernels.causal_conv1d import BLOCK_DIM

from .arguments import launch


def chunk_tables() -> dict:
    """Describes a launch of the kernel that makes both chunk tables by a scan."""
    tables = {"chunk_indices": "*i32", "chunk_offsets": "*i64", "cu_seqlens": "*i32"}
    return launch(
        tables | dict.fromkeys(("num_rows", "num_seqs", "bisections"), "i32"),
        [],
        CHUNK=64,
        TILE=device_tables.TILE,
        BLOCK=device_tables.BLOCK,
    )


def chunk_cumsum(chunk_size: int, num_heads: int) -> dict:
    """Describes a launch of the kernel that computes the running sums of the gates within one
    chunk."""
    tensors = {"out": "*fp32", "g": "*fp32"}
    return launch(
        tensors | dict.fromkeys(("first", "length", "num_heads"), "i32"),
        [*tensors],
        CHUNK=chunk_size,
        HEADS=1 << (num_heads - 1).bit_length(),
    )


def local_cumsum(chunk_size: int, num_heads: int) -> dict:
    """Describes a launch of the kernel that computes the running sums of the gates within every
    chunk."""
    tensors = {"out": "*fp32", "g": "*fp32"}
    tables = dict.fromkeys(("cu_seqlens", "chunk_indices"), "*i32")
    return launch(
        tensors | tables | {"num_heads": "i32"},
        [*tensors],
        CHUNK=chunk_size,
        HEADS=1 << (num_heads - 1).bit_length(),
    )


def gated_delta_steps(
    dtype: str,
    key_size: int,
    value_size: int,
    *,
    states: bool = True,
    starts: bool = False,
    speculative: bool = False,
) -> dict:
    """Describes a launch of the gated delta rule token by token: a decode step, or one with draft
    tokens."""
    tokens = dict.fromkeys(("o", "q", "k", "v"), f"*{dtype}")
    gates = {"g": "*fp32", "beta": "*fp32", "states": "*fp32" if states else f"*{dtype}"}
    tables = dict.fromkeys(("cu_seqlens", "state_indices", "num_accepted_tokens"), "*i32")
    sizes = ("num_tokens", "num_slots", "num_columns", "index_stride")
    strides = ("q_stride", "k_stride", "v_stride", "g_stride", "beta_stride", "slot_stride")
    return launch(
        tokens | gates | tables | {"scale": "fp32"} | dict.fromkeys((*sizes, *strides), "i32"),
        [*tokens, "states", *strides],
        HV=32,
        GROUP=2,
        K=key_size,
        V=value_size,
        HAS_STATES=states,
        HAS_STARTS=starts or speculative,
        HAS_INDICES=states,
        SPECULATIVE=speculative,
        NORMALIZE=True,
        BLOCK_K=1 << (key_size - 1).bit_length(),
        BLOCK_V=min(recurrent.BLOCK_V, 1 << (value_size - 1).bit_length()),
    )


def convolution_update(dtype: str, width: int, *, speculative: bool = False) -> dict:
    """Describes a launch of the convolution in a decode step, or in one with draft tokens."""
    tensors = ("output", "x", "weight", "bias", "conv_states")
    tables = ("state_indices", "query_start_loc", "num_accepted_tokens")
    sizes = ("num_tokens", "num_slots", "num_columns", "index_stride", "dim")
    strides = ("x_stride", "slot_stride", "channel_stride", "tap_stride")
    return launch(
        dict.fromkeys(tensors, f"*{dtype}")
        | dict.fromkeys(tables, "*i32")
        | dict.fromkeys((*sizes, *strides), "i32"),
        [*tensors, "dim", "x_stride", "slot_stride"],
        HAS_BIAS=True,
        HAS_STARTS=speculative,
        SPECULATIVE=speculative,
        SILU=True,
        WIDTH=width,
        BLOCK_DIM=BLOCK_DIM,
    )


def gates(dtype: str) -> dict:
    """Describes a launch of the kernel that computes both gates of the delta rule."""
    projected = dict.fromkeys(("a", "b", "dt_bias"), f"*{dtype}")
    return launch(
        dict.fromkeys(("g", "beta", "A_log"), "*fp32")
        | projected
        | dict.fromkeys(("num_gates", "a_stride", "b_stride"), "i32"),
        ["g", "beta", "A_log", "dt_bias", "a_stride", "b_stride"],
        HV=32,
        LINEAR_FROM=gating.LINEAR_FROM,
        BLOCK=gating.BLOCK,
    )


def gated_norms(dtype: str, size: int) -> dict:
    """Describes a launch of the norm with an output gate, in which a program has a few heads."""
    tensors = ("output", "x", "z", "weight")
    block = 1 << (size - 1).bit_length()
    return launch(
        dict.fromkeys(tensors, f"*{dtype}")
        | {"eps": "fp32"}
        | dict.fromkeys(("num_rows", "x_stride", "z_stride"), "i32"),
        [*tensors, "x_stride", "z_stride"],
        HEADS=32,
        SIZE=size,
        ROWS=gated_norm.TILE // block,
        BLOCK=block,
    )


LAUNCHES = {
    "solutions.gdn.device_tables:chunk_tables_kernel": {"as it is": chunk_tables()},
    "solutions.gdn.katas.before.local_cumsum:chunk_cumsum_kernel": {
        "3 heads": chunk_cumsum(16, 3),
    },
    "solutions.gdn.katas.local_cumsum:local_cumsum_kernel": {
        "32 heads": local_cumsum(64, 32),
        "3 heads": local_cumsum(16, 3),
    },
    "solutions.gdn.rule.recurrent:recurrent_kernel": {
        "bf16, decode": gated_delta_steps("bf16", 128, 128),
        "bf16, drafts": gated_delta_steps("bf16", 128, 128, speculative=True),
        "fp16, any lengths": gated_delta_steps("fp16", 64, 80, starts=True),
        "fp32, no states": gated_delta_steps("fp32", 256, 16, states=False, starts=True),
    },
    "solutions.gdn.model.conv_update:conv_update_kernel": {
        "bf16, width 4": convolution_update("bf16", 4),
        "bf16, width 4, drafts": convolution_update("bf16", 4, speculative=True),
        "fp32, width 2": convolution_update("fp32", 2),
    },
    "solutions.gdn.model.gating:gating_kernel": {
        "bf16": gates("bf16"),
        "fp32": gates("fp32"),
    },
    "solutions.gdn.model.gated_norm:gated_norm_kernel": {
        "bf16, heads of 128": gated_norms("bf16", 128),
        "fp32, heads of 80": gated_norms("fp32", 80),
    },
}
VARIES = {
    "solutions.gdn.device_tables:chunk_tables_kernel": (
        "num_rows num_seqs bisections",
        "chunk_indices chunk_offsets cu_seqlens",
    ),
    "solutions.gdn.katas.before.local_cumsum:chunk_cumsum_kernel": ("first length", ""),
    "solutions.gdn.katas.local_cumsum:local_cumsum_kernel": ("", "cu_seqlens chunk_indices"),
    "solutions.gdn.rule.recurrent:recurrent_kernel": (
        "num_tokens num_columns index_stride",
        "g beta cu_seqlens state_indices num_accepted_tokens",
    ),
    "solutions.gdn.model.conv_update:conv_update_kernel": (
        "num_tokens num_columns index_stride",
        "query_start_loc state_indices num_accepted_tokens",
    ),
    "solutions.gdn.model.gating:gating_kernel": ("num_gates", "a b"),
    "solutions.gdn.model.gated_norm:gated_norm_kernel": ("num_rows", ""),
}
