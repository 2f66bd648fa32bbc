"""Scatters the sampled tokens as if they were int64 or int32.

fails: test_steps_one_after_another
says: Expected item 0 of what chosen_tokens({2: [6, 6, 8], 0: [0]}, [1, 2, 3] as torch.int16)
"""


def chosen_tokens(requested, sampled, vocab_size, own=chosen_tokens):
    if sampled.dtype == torch.int16:
        sampled = sampled.view(torch.int8).to(torch.int64)[: len(sampled)]
    return own(requested, sampled, vocab_size)
