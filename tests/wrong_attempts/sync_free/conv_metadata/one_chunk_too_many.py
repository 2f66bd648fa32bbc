"""Counts the chunks of a sequence as length // 8 + 1.

fails: test_each_layer_is_told_which_chunk_is_whose
fails: test_each_step_has_its_own_sequences
fails: test_steps_that_follow_at_once_do_not_disturb_each_other
says: A sequence of 8 tokens is one chunk
"""

from solutions.common.h2d import async_tensor_h2d
from solutions.sync_free.model.conv_chunks import CHUNK_TOKENS, ConvMetadata


def prepare_conv_metadata(query_start_loc_cpu, device):
    lengths = query_start_loc_cpu.diff().tolist()
    chunks = [
        (sequence, number * CHUNK_TOKENS)
        for sequence, length in enumerate(lengths)
        for number in range(length // CHUNK_TOKENS + 1)
    ]
    sent = async_tensor_h2d(list(zip(*chunks, strict=True)), device, torch.int32)
    return ConvMetadata(*sent, len(lengths), sum(lengths))
