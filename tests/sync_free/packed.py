"""The planning version of each site, with the site's interface: plan, upload, apply."""

from solutions.common.packed_upload import upload_packed
from solutions.sync_free.packed.bad_words import BadWords, plan_bad_words
from solutions.sync_free.packed.logprobs import plan_logprobs
from solutions.sync_free.packed.ngram import plan_ngram_update
from solutions.sync_free.packed.penalties import plan_bincount
from solutions.sync_free.packed.token_types import plan_token_types


def applied(plan, device, *state):
    return plan.apply(upload_packed(plan.arrays, device), *state)


def _init_model_kwargs(token_type_starts, seq_lens, optimistic_seq_lens_cpu, num_reqs):
    plan = plan_token_types(token_type_starts, optimistic_seq_lens_cpu, num_reqs)
    return {"token_type_ids": applied(plan, seq_lens.device, seq_lens.device)}


def apply_bad_words(logits, bad_words_token_ids, past_tokens_ids):
    plan = plan_bad_words(BadWords.of(bad_words_token_ids, *logits.shape), past_tokens_ids)
    applied(plan, logits.device, logits)


def gather_specific_token_logprobs(logits, requested, sampled):
    return applied(plan_logprobs(requested, *logits.shape), logits.device, logits, sampled)


def bincount(req_indices, all_token_ids, prompt_lens, prefill_lens, *tables):
    plan = plan_bincount(req_indices, prompt_lens, prefill_lens, *all_token_ids.shape)
    applied(plan, all_token_ids.device, all_token_ids, *tables)


def update_ngram_gpu_tensors_incremental(batch, token_ids, num_tokens, previous, new):
    plan = plan_ngram_update(batch, previous, new)
    applied(plan, token_ids.device, token_ids, num_tokens)
    return plan.req_id_to_row
