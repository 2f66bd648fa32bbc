"""The launches of the kernels of `solutions.sync_free`."""

from solutions.sync_free.kernels.causal_conv1d import BLOCK_DIM
from solutions.sync_free.kernels.logprobs import IDS, ROWS, TILE
from solutions.sync_free.kernels.ngram import SCATTER_BLOCK
from solutions.sync_free.kernels.penalties import BLOCK
from solutions.sync_free.model.conv_chunks import CHUNK_TOKENS

from .arguments import launch


def own_column(columns: int) -> dict:
    """Describes a launch of the kernel that writes this rank's column before an exchange between
    `columns` data-parallel ranks."""
    numbers = ("original_tokens", "padded_tokens", "should_ubatch", "cudagraph_mode")
    return launch(
        {"state": "*i32"} | dict.fromkeys(("rank", "size", *numbers), "i32"),
        ["state"],
        num_warps=1,
        COLUMNS=columns,
    )


def vocabulary_block(dtype: str, ids: str, vocab_size: int) -> dict:
    """Describes a launch of the kernel that reads all logits once; a program has one row, or
    several short rows."""
    partials = {"highest": "*fp32", "total": "*fp32", "reaching": "*i32"}
    sizes = ("num_rows", "vocab_size", "num_blocks", "logits_stride", "ids_stride")
    block = min(TILE, 1 << (vocab_size - 1).bit_length())
    return launch(
        partials | {"logits": f"*{dtype}", "ids": ids} | dict.fromkeys(sizes, "i32"),
        [*partials, "logits", "vocab_size", "logits_stride"],
        num_warps=8,
        ROWS=TILE // block,
        BLOCK=block,
    )


def token_logprobs(dtype: str, ids: str, vocab_size: int, *, has_counts: bool = True) -> dict:
    """Describes a launch of the kernel that looks up the log-probabilities of a few tokens."""
    results = {"logprobs": "*fp32", "ranks": "*i64"}
    partials = {"highest": "*fp32", "total": "*fp32", "reaching": "*i32"}
    sizes = ("num_rows", "width", "vocab_size", "num_blocks", "logits_stride", "ids_stride")
    tensors = results | {"logits": f"*{dtype}", "ids": ids, "counts": "*i32"} | partials
    blocks = -(-vocab_size // TILE)
    return launch(
        tensors | dict.fromkeys(sizes, "i32"),
        [*results, *partials, "logits", "vocab_size", "logits_stride"],
        HAS_COUNTS=has_counts,
        ROWS=ROWS,
        IDS=IDS,
        BLOCKS=1 << (blocks - 1).bit_length(),
    )


def bincount() -> dict:
    """Describes a launch of the kernel that counts the tokens of new requests."""
    tables = dict.fromkeys(("prompt_bin_mask", "output_bin_counts", "token_ids"), "*i32")
    lengths = dict.fromkeys(("prompt_lens", "prefill_lens"), "*i32")
    sizes = ("token_stride", "num_words", "vocab_size")
    return launch(
        tables | lengths | {"rows": "*i64"} | dict.fromkeys(sizes, "i32"),
        [*tables, *sizes],
        BLOCK=BLOCK,
    )


def convolution(dtype: str, width: int) -> dict:
    """Describes a launch of the causal convolution, with states of any layout."""
    tensors = ("output", "x", "weight", "bias", "conv_states")
    tables = ("query_start_loc", "cache_indices", "batch_of_chunk", "chunk_offset")
    sizes = (
        "num_tokens",
        "num_slots",
        "dim",
        "x_stride",
        "slot_stride",
        "channel_stride",
        "tap_stride",
    )
    return launch(
        dict.fromkeys(tensors, f"*{dtype}")
        | dict.fromkeys(tables, "*i32")
        | {"has_initial_state": "*i1"}
        | dict.fromkeys(sizes, "i32"),
        [*tensors, "dim", "x_stride", "slot_stride"],
        HAS_BIAS=True,
        SILU=True,
        WIDTH=width,
        CHUNK=CHUNK_TOKENS,
        BLOCK_DIM=BLOCK_DIM,
    )


def scatter_rows() -> dict:
    """Describes a launch of the kernel that writes token ids of many rows, each to its place."""
    rows = dict.fromkeys(("written_rows", "starts"), "*i64")
    sizes = ("table_stride", "num_written", "num_ids", "bisections")
    return launch(
        rows | dict.fromkeys(("table", "ids"), "*i32") | dict.fromkeys(sizes, "i32"),
        ["table", "table_stride"],
        BLOCK=SCATTER_BLOCK,
    )


LAUNCHES = {
    "solutions.sync_free.kernels.logprobs:vocabulary_block_kernel": {
        "fp32, 128k": vocabulary_block("fp32", "*i32", 128_256),
        "bf16, 128k, sampled ids": vocabulary_block("bf16", "*i64", 128_256),
        "fp16, many short rows": vocabulary_block("fp16", "*i32", 512),
    },
    "solutions.sync_free.kernels.logprobs:token_logprobs_kernel": {
        "fp32, 128k": token_logprobs("fp32", "*i32", 128_256),
        "bf16, 128k, all ids": token_logprobs("bf16", "*i64", 128_256, has_counts=False),
        "fp16, one block": token_logprobs("fp16", "*i32", 512),
    },
    "solutions.sync_free.kernels.penalties:bincount_kernel": {"as it is": bincount()},
    "solutions.sync_free.kernels.ngram:scatter_rows_kernel": {"as it is": scatter_rows()},
    "solutions.sync_free.model.data_parallel_group:own_column_kernel": {
        "one rank": own_column(1),
        "8 ranks": own_column(8),
    },
    "solutions.sync_free.kernels.causal_conv1d:causal_conv1d_kernel": {
        "bf16, width 4": convolution("bf16", 4),
        "fp16, width 3": convolution("fp16", 3),
        "fp32, width 2": convolution("fp32", 2),
    },
}
VARIES = {
    "solutions.sync_free.kernels.logprobs:vocabulary_block_kernel": ("num_rows ids_stride", "ids"),
    "solutions.sync_free.kernels.logprobs:token_logprobs_kernel": (
        "num_rows width ids_stride",
        "ids counts",
    ),
    "solutions.sync_free.kernels.penalties:bincount_kernel": ("", "rows prompt_lens prefill_lens"),
}
