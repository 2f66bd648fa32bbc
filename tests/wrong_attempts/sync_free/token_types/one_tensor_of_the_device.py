"""Keeps one tensor on the device for each number of tokens, and copies to it.

fails: test_results_stay_as_they_are
says: to have memory of its own
"""

TENSORS = {}


def _init_model_kwargs(
    token_type_starts, seq_lens, optimistic_seq_lens_cpu, num_reqs, own=_init_model_kwargs
):
    given = token_type_starts, seq_lens, optimistic_seq_lens_cpu, num_reqs
    ids = own(*given)["token_type_ids"]
    kept = TENSORS.setdefault(len(ids), torch.empty_like(ids))
    return {"token_type_ids": kept.copy_(ids)}
