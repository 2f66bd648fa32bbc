"""The launches of the kernels of `solutions.offload`."""

from solutions.offload import UPSTREAM, Launch
from solutions.offload.choice import upstream_scheme
from solutions.offload.paths.descriptors import WORD

from .arguments import launch, pointers


def swapped_chunks(how: Launch, *, vector: bool) -> dict:
    """Describes a launch of the kernel that copies a list of pieces, whose programs share the
    chunks of all pieces."""
    return launch(
        descriptor_columns() | {"num_jobs": "i32", "stride": "i32", "chunks_per_job": "i32"},
        [],
        num_warps=how.num_warps,
        WORDS=how.bytes_per_chunk // WORD,
        VECTOR=vector,
        STAGES=how.num_stages,
    ) | {"ptx_is_read": True}


def swapped_jobs(bytes_per_chunk: int) -> dict:
    """Describes a launch of the kernel that copies a list of pieces with one program for each
    piece."""
    return launch(
        descriptor_columns() | {"num_jobs": "i32"},
        [],
        num_warps=upstream_scheme.NUM_WARPS,
        WORDS=bytes_per_chunk // WORD,
    )


def copied_piece(words: int) -> dict:
    """Describes a launch of the kernel that copies one piece, whose place and size the host
    knows."""
    return launch({"source": "i64", "target": "i64", "num_words": "i32"}, [], WORDS=words)


def descriptor_columns() -> dict[str, str]:
    return pointers("i64", "src_addrs dst_addrs sizes")


LAUNCHES = {
    "solutions.offload.swap_blocks:_swap_blocks_kernel": {
        "4096-byte chunks": swapped_chunks(Launch(bytes_per_chunk=4096), vector=False),
        "4096-byte chunks, vectors": swapped_chunks(Launch(bytes_per_chunk=4096), vector=True),
        "8192-byte chunks, not pipelined": swapped_chunks(
            Launch(bytes_per_chunk=8192, num_stages=1), vector=True
        ),
        "one word": swapped_chunks(Launch(bytes_per_chunk=8), vector=False),
    },
    "solutions.offload.choice.upstream_scheme:swap_jobs_kernel": {
        "4 KiB pieces": swapped_jobs(4096),
        "upstream's largest chunks": swapped_jobs(UPSTREAM.bytes_per_chunk),
    },
    "solutions.offload.katas.before.copy_pieces:copy_piece_kernel": {
        "a word": copied_piece(1),
        "a page": copied_piece(512),
    },
}
VARIES = {
    "solutions.offload.swap_blocks:_swap_blocks_kernel": (
        "num_jobs stride chunks_per_job",
        "src_addrs dst_addrs sizes",
    ),
    "solutions.offload.choice.upstream_scheme:swap_jobs_kernel": (
        "num_jobs",
        "src_addrs dst_addrs sizes",
    ),
    "solutions.offload.katas.before.copy_pieces:copy_piece_kernel": ("source target num_words", ""),
}
