"""The launches of the kernels of `solutions.engine` and `solutions.models`."""

from solutions.engine.sampling import choose, wishes
from solutions.engine.speculation import propose, verify
from solutions.models.layers import experts

from .arguments import launch, pointers


def choices(dtype: str, vocab_size: int) -> dict:
    """Describes a launch of the kernel that samples a token for each row of logits."""
    tables = pointers("i32", "wishes slots token_ids prompt_bin_mask output_bin_counts")
    outputs = pointers("i64", "tokens last_tokens") | {"logits": f"*{dtype}"}
    block = min(1 << (vocab_size - 1).bit_length(), choose.TILE)
    return launch(
        outputs | tables | dict.fromkeys(("num_rows", "logits_stride", "max_len"), "i32"),
        [*outputs, "token_ids", "prompt_bin_mask", "output_bin_counts"],
        num_warps=8,
        VOCAB_SIZE=vocab_size,
        WIDTH=wishes.WIDTH,
        ROUND=wishes.FIRST,
        ROWS=choose.TILE // block,
        BLOCK=block,
    )


def of_experts(dtype: str, num_experts: int, rows: int, columns: int, gathers: bool) -> dict:
    """Describes a launch of the kernel that multiplies each token by the weights of its experts."""
    tensors = pointers(dtype, "output x weight weights") | pointers("i64", "rows starts tile_ends")
    return launch(
        tensors | {"tokens_of": "i32"},
        [*tensors],
        EXPERTS=num_experts,
        EXPERTS_PADDED=1 << (num_experts - 1).bit_length(),
        N=rows,
        K=columns,
        GATHERS=gathers,
        UPCAST=False,
        BLOCK_M=experts.BLOCK_M,
        BLOCK_N=experts.BLOCK_N,
        BLOCK_K=experts.BLOCK_K,
    ) | {"tensor_cores": dtype != "fp32"}


def drafts(num_drafts: int) -> dict:
    """Describes a launch of the kernel that proposes draft tokens, and lays out the step that tries
    them."""
    tables = "token_ids num_known lengths ends slots block_table wishes"
    outputs = "step_ids positions slot_mapping seq_lens starts drafts row_wishes row_slots"
    tensors = pointers("i32", f"{tables} {outputs}")
    return launch(
        tensors | dict.fromkeys(("num_slots", "max_len", "pages"), "i32"),
        [*tensors],
        DRAFTS=num_drafts,
        LANES=1 << num_drafts.bit_length(),
        PAGE=16,
        WIDTH=wishes.WIDTH,
        COLUMNS=1 << (wishes.WIDTH - 1).bit_length(),
        LONGEST=propose.LONGEST,
        TILE=propose.TILE,
    )


def verdicts(num_drafts: int) -> dict:
    """Describes a launch of the kernel that decides which draft tokens were right."""
    tensors = pointers("i64", "tokens last_tokens answers") | pointers(
        "i32", "drafts starts ends slots num_known"
    )
    return launch(
        tensors | {"num_slots": "i32"},
        [*tensors],
        DRAFTS=num_drafts,
        LANES=1 << num_drafts.bit_length(),
        HEAD=verify.HEAD,
    )


LAUNCHES = {
    "solutions.engine.sampling.choose:choose_kernel": {
        "bf16, 128256": choices("bf16", 128_256),
        "fp32, 96": choices("fp32", 96),
    },
    "solutions.engine.speculation.propose:propose_kernel": {
        "4 drafts": drafts(4),
    },
    "solutions.engine.speculation.verify:verify_kernel": {
        "4 drafts": verdicts(4),
    },
    "solutions.models.layers.experts:expert_linear_kernel": {
        "bf16, 512 experts": of_experts("bf16", 512, 1024, 2048, True),
        "bf16, back": of_experts("bf16", 512, 2048, 512, False),
        "fp32, 5 experts": of_experts("fp32", 5, 48, 32, True),
    },
}
VARIES = {
    "solutions.engine.sampling.choose:choose_kernel": ("num_rows", "wishes slots"),
    "solutions.models.layers.experts:expert_linear_kernel": ("tokens_of", ""),
}
