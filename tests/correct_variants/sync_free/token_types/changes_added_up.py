"""Sends where ids go up and down, and adds these steps up on the device."""

from debubble.accelerator import current


def _init_model_kwargs(token_type_starts, seq_lens, optimistic_seq_lens_cpu, num_reqs):
    check_token_types(token_type_starts, optimistic_seq_lens_cpu, num_reqs)
    lengths = optimistic_seq_lens_cpu[:num_reqs].tolist()
    steps, end = torch.zeros(sum(lengths) + 1, dtype=torch.int8), 0
    for request, length in enumerate(lengths):
        start = min(max(token_type_starts.get(request, length), 0), length)
        steps[end + start] += 1
        steps[end + length] -= 1
        end += length
    staged = torch.empty(end, dtype=torch.int8, pin_memory=current().pin_memory).copy_(steps[:end])
    sent = staged.to(seq_lens.device, non_blocking=True)
    return {"token_type_ids": sent.cumsum(0, dtype=torch.int32)}
