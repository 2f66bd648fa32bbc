"""Keeps one tensor for each number of tokens, to which every layer's decays are written.

fails: test_results_stay_as_they_are
says: to have memory of its own
"""

DECAYS = {}


def decays_of_layers(gates, cu_seqlens, cu_seqlens_cpu, own=decays_of_layers):
    results = []
    for number, decay in enumerate(own(gates, cu_seqlens, cu_seqlens_cpu)):
        kept = DECAYS.setdefault((number, len(decay)), torch.empty_like(decay))
        results.append(kept.copy_(decay))
    return results
