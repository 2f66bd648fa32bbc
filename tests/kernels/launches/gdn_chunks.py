"""The launches of the kernels of the chunked delta rule."""

from functools import partial

from solutions.gdn.rule.chunk_batch import BLOCK_V, ROWS, output_stages, warps_for
from solutions.gdn.rule.chunks import FLA_CHUNK_SIZE
from solutions.gdn.rule.segments import NEGLIGIBLE
from solutions.gdn.rule.solve_chunks import MOST_REGISTERS

from .arguments import pointers


def chunk_launch(
    dtype: str,
    tensors: dict[str, str],
    numbers: str,
    varying: str,
    constants: dict,
    **options: int,
) -> dict:
    """Describes a launch of a kernel of the chunked delta rule, with products of `dtype`. All
    tensors and numbers are aligned, except the `varying` ones."""
    sizes = {name: "fp32" if name == "scale" else "i32" for name in numbers.split()}
    shared = {
        "GROUP": 2,
        "CHUNK": FLA_CHUNK_SIZE,
        "PRECISION": "ieee" if dtype == "fp32" else "tf32",
        "UPCAST": False,
    }
    return {
        "arguments": tensors | sizes,
        "aligned": [name for name in (*tensors, *sizes) if name not in varying.split()],
        "constants": shared | constants,
        "options": {"num_warps": 4, **options},
        "tensor_cores": dtype != "fp32",
        "slow_to_compile": dtype == "fp32",
    }


def chunk_solve(dtype: str, key_size: int) -> dict:
    """Describes a launch of the kernel that solves for how a chunk's tokens change one another."""
    scales = "query_scales read_scales write_scales"
    of_chunks = "chunk_decays chunk_bounds"
    launch = chunk_launch(
        dtype,
        pointers(dtype, "solved scores q k beta")
        | pointers("fp32", f"{scales} {of_chunks} g")
        | pointers("i32", "cu_seqlens chunk_indices"),
        "num_tokens scale q_stride k_stride g_stride beta_stride",
        f"{scales} {of_chunks} g beta cu_seqlens chunk_indices num_tokens scale",
        {"NORMALIZE": True, "K": key_size, "KIND": "float32" if dtype == "fp32" else "float16"},
        maxnreg=MOST_REGISTERS,
    )
    return launch | {"tensor_cores": True}


def chunk_after_chunk(
    dtype: str,
    tensors: dict[str, str],
    numbers: str,
    varying: str,
    constants: dict,
    *,
    states: bool,
    **options: int,
) -> dict:
    """Describes a launch of a kernel that goes from chunk to chunk, with states in a pool or from
    zeros. `tensors`, `numbers`, `varying` and `constants` are those of this kernel alone."""
    return chunk_launch(
        dtype,
        pointers(dtype, "k v solved")
        | pointers("fp32", "entering transitions read_scales write_scales chunk_decays")
        | pointers("fp32", "initial_state")
        | pointers("i32", "reaches_end state_indices cu_seqlens chunk_indices")
        | pointers("i64", "chunk_offsets")
        | pointers("i1" if states else "i32", "has_initial_state")
        | tensors,
        f"num_tokens num_chunks num_slots num_windows segment k_stride v_stride initial_stride"
        f" {numbers}",
        "read_scales write_scales chunk_decays reaches_end state_indices cu_seqlens chunk_indices"
        " chunk_offsets has_initial_state num_tokens num_chunks num_slots num_windows segment"
        f" {varying}",
        dict.fromkeys(("HAS_INITIAL", "HAS_FLAGS", "IN_POOL"), states) | constants,
        **options,
    )


def state_pass(dtype: str, key_size: int, value_size: int, *, states: bool = True) -> dict:
    """Describes a launch of the kernel that passes states through segments."""
    on_tensor_cores = dtype != "fp32"
    return chunk_after_chunk(
        dtype,
        pointers("fp32", "chunk_bounds"),
        "",
        "chunk_bounds",
        {
            "K": key_size,
            "V": value_size,
            "ROWS": min(ROWS[on_tensor_cores], key_size, value_size),
            "STAGES": 3 if on_tensor_cores else 1,
            "NEGLIGIBLE": NEGLIGIBLE[on_tensor_cores],
        },
        states=states,
    )


def chunk_output(
    dtype: str, key_size: int, value_size: int, shared_memory: int, *, states: bool = True
) -> dict:
    """Describes a launch of the kernel that computes outputs, as it is on a GPU with this much
    shared memory for a block."""
    on_tensor_cores = dtype != "fp32"
    block_v = min(BLOCK_V[on_tensor_cores], value_size)
    return chunk_after_chunk(
        dtype,
        pointers(dtype, "o q scores")
        | pointers("fp32" if states else dtype, "final_state")
        | pointers("fp32", "query_scales"),
        "num_seqs q_stride final_stride",
        "query_scales num_seqs",
        {
            "STORE_FINAL": states,
            "K": key_size,
            "V": value_size,
            "BLOCK_V": block_v,
            "STAGES": output_stages(shared_memory) if on_tensor_cores else 1,
        },
        states=states,
        num_warps=warps_for(block_v),
    )


LAUNCHES = {
    "solutions.gdn.rule.solve_chunks:chunk_solve_kernel": {
        "bf16, keys of 128": chunk_solve("bf16", 128),
        "fp16, keys of 64": chunk_solve("fp16", 64),
        "fp32, keys of 128": chunk_solve("fp32", 128),
    },
    "solutions.gdn.rule.pass_states:state_pass_kernel": {
        "bf16": state_pass("bf16", 128, 128),
        "fp16, from zeros": state_pass("fp16", 16, 32, states=False),
        "fp32": state_pass("fp32", 128, 128),
    },
    "solutions.gdn.rule.read_outputs:chunk_output_kernel": {
        "bf16, heads of 128": partial(chunk_output, "bf16", 128, 128),
        "fp16, small heads": partial(chunk_output, "fp16", 16, 32, states=False),
        "fp32, heads of 128": chunk_output("fp32", 128, 128, 0),
    },
}
VARIES = {
    "solutions.gdn.rule.solve_chunks:chunk_solve_kernel": (
        "num_tokens",
        "query_scales read_scales write_scales chunk_decays chunk_bounds g beta cu_seqlens"
        " chunk_indices",
    ),
    "solutions.gdn.rule.pass_states:state_pass_kernel": (
        "num_tokens num_chunks num_slots num_windows segment",
        "reaches_end read_scales write_scales chunk_decays chunk_bounds state_indices"
        " has_initial_state cu_seqlens chunk_indices chunk_offsets",
    ),
    "solutions.gdn.rule.read_outputs:chunk_output_kernel": (
        "num_tokens num_chunks num_slots num_seqs num_windows segment",
        "reaches_end query_scales read_scales write_scales chunk_decays state_indices"
        " has_initial_state cu_seqlens chunk_indices chunk_offsets",
    ),
}
