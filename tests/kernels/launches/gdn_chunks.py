"""The launches of the kernels of the chunked delta rule."""

from solutions.gdn.rule.chunk_batch import BLOCK_V as BLOCK_V_OF_STATES
from solutions.gdn.rule.chunks import FLA_CHUNK_SIZE
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
    vectors = "decays key_norms read_scales write_scales"
    launch = chunk_launch(
        dtype,
        pointers(dtype, "solved k beta")
        | pointers("fp32", f"{vectors} chunk_decays g")
        | pointers("i32", "cu_seqlens chunk_indices"),
        "num_tokens k_stride g_stride beta_stride",
        f"{vectors} g beta cu_seqlens chunk_indices num_tokens",
        {"NORMALIZE": True, "K": key_size, "KIND": "float32" if dtype == "fp32" else "float16"},
        maxnreg=MOST_REGISTERS,
    )
    return launch | {"tensor_cores": True}


def state_pass(
    dtype: str, key_size: int, value_size: int, stages: int, *, states: bool = True
) -> dict:
    """Describes a launch of the kernel that passes the states through the chunks of their
    sequences: in a pool, or from zeros."""
    scales = "read_scales write_scales"
    constants = dict.fromkeys(("HAS_INITIAL", "HAS_FLAGS", "IN_POOL", "STORE_FINAL"), states)
    return chunk_launch(
        dtype,
        pointers(dtype, "states written k v solved")
        | pointers("fp32" if states else dtype, "final_state initial_state")
        | pointers("fp32", f"{scales} chunk_decays")
        | pointers("i32", "state_indices cu_seqlens")
        | pointers("i64", "chunk_offsets")
        | pointers("i1" if states else "i32", "has_initial_state"),
        "num_tokens num_chunks num_slots k_stride v_stride initial_stride final_stride",
        f"{scales} state_indices cu_seqlens chunk_offsets has_initial_state"
        " num_tokens num_chunks num_slots",
        constants
        | {
            "K": key_size,
            "V": value_size,
            "BLOCK_V": min(BLOCK_V_OF_STATES[dtype != "fp32"], value_size),
            "STAGES": stages,
        },
    )


def chunk_output(dtype: str, key_size: int, value_size: int, *, normalize: bool = True) -> dict:
    """Describes a launch of the kernel that computes a chunk's outputs: what its queries read."""
    return chunk_launch(
        dtype,
        pointers(dtype, "o q k states written")
        | pointers("fp32", "decays key_norms")
        | pointers("i32", "cu_seqlens chunk_indices"),
        "num_tokens scale q_stride k_stride",
        "decays key_norms cu_seqlens chunk_indices num_tokens scale",
        {
            "NORMALIZE": normalize,
            "K": key_size,
            "V": value_size,
            "BLOCK_V": min(BLOCK_V_OF_STATES[dtype != "fp32"], value_size),
        },
        num_stages=1,
    )


LAUNCHES = {
    "solutions.gdn.rule.solve_chunks:chunk_solve_kernel": {
        "bf16, keys of 128": chunk_solve("bf16", 128),
        "fp16, keys of 64": chunk_solve("fp16", 64),
        "fp32, keys of 128": chunk_solve("fp32", 128),
    },
    "solutions.gdn.rule.pass_states:state_pass_kernel": {
        **{f"bf16, {stages} stages": state_pass("bf16", 128, 128, stages) for stages in (1, 3, 4)},
        "fp16, from zeros": state_pass("fp16", 16, 32, 1, states=False),
        "fp32": state_pass("fp32", 128, 128, 1),
    },
    "solutions.gdn.rule.read_outputs:chunk_output_kernel": {
        "bf16, heads of 128": chunk_output("bf16", 128, 128),
        "fp16, small heads": chunk_output("fp16", 16, 32, normalize=False),
        "fp32, heads of 128": chunk_output("fp32", 128, 128),
    },
}
VARIES = {
    "solutions.gdn.rule.solve_chunks:chunk_solve_kernel": (
        "num_tokens",
        "decays key_norms read_scales write_scales g beta cu_seqlens chunk_indices",
    ),
    "solutions.gdn.rule.pass_states:state_pass_kernel": (
        "num_tokens num_chunks num_slots",
        "read_scales write_scales cu_seqlens chunk_offsets state_indices has_initial_state",
    ),
    "solutions.gdn.rule.read_outputs:chunk_output_kernel": (
        "num_tokens",
        "decays key_norms cu_seqlens chunk_indices",
    ),
}
