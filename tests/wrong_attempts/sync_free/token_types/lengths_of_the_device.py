"""Finds each token's request by the lengths that the device has.

fails: test_the_lengths_are_those_that_the_host_has
says: but its number is not read
"""

from debubble.accelerator import current


def _init_model_kwargs(token_type_starts, seq_lens, optimistic_seq_lens_cpu, num_reqs):
    lengths = check_token_types(token_type_starts, optimistic_seq_lens_cpu, num_reqs)
    never = 2**31 - 1
    starts = [token_type_starts.get(request, never) for request in range(num_reqs)] + [never]
    staging = torch.tensor(starts, dtype=torch.int64, pin_memory=current().pin_memory)
    sent, ends = staging.to(seq_lens.device, non_blocking=True), seq_lens[:num_reqs].cumsum(0)
    token = torch.arange(int(lengths.sum()), device=seq_lens.device)
    request = torch.searchsorted(ends, token, right=True)
    first = torch.cat([ends.new_zeros(1), ends])[request]
    return {"token_type_ids": (token - first >= sent[request]).int()}
