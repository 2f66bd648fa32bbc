"""The GPUs that kernels are compiled for; none of them is needed."""

SHARED_MEMORY = {
    80: 163 * 1024,  # A100
    86: 99 * 1024,  # A10G, GeForce RTX 3090
    89: 99 * 1024,  # L4, GeForce RTX 4090
    90: 227 * 1024,  # H100, H200
    100: 227 * 1024,  # B200
    120: 99 * 1024,  # GeForce RTX 5090
}
"""The most bytes of shared memory that a block can have, by architecture."""
TENSOR_MEMORY = 512
"""The most columns of tensor memory that a block can have on sm_100. No other architecture here has
tensor memory."""
ALIKE = {86: 80, 89: 80}
"""{architecture: a second one}: for both Triton lowers a launch to the same TTGIR, and so to the
same shared memory."""
FULLY_COMPILED = 90
"""The architecture for which every launch is lowered, and in deep runs compiled to machine code."""


def check_memory(kernel: str, launch: str, architecture: int, shared: int, tensor: int = 0) -> None:
    """Raises AssertionError, naming the kernel and launch, if a block takes more than the
    architecture has: `shared` bytes of shared memory or `tensor` columns of tensor memory."""
    who = f"{kernel.split(':')[-1]} ({launch}) takes"
    limit = SHARED_MEMORY[architecture]
    assert shared <= limit, (
        f"{who} {shared} bytes of shared memory on sm_{architecture}, where a block has at most "
        f"{limit}: choose a smaller tile or fewer stages there"
    )
    limit = TENSOR_MEMORY if architecture == 100 else 0
    assert tensor <= limit, (
        f"{who} {tensor} columns of tensor memory on sm_{architecture}, where a block has at most "
        f"{limit}: choose a smaller tile there"
    )
