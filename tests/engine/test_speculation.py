"""N-gram speculation: fewer steps, the same tokens, and no waits of the host."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import debubble
from solutions.engine import Optimizations, SamplingParams
from solutions.engine.requests.slot_tables import SlotTables
from solutions.engine.requests.step_batch import ScheduledRequest
from solutions.engine.requests.workload import Asked, Prompt
from solutions.engine.sampling.wishes import WIDTH, Column
from solutions.engine.speculation.drafted_batch import DraftedBatch
from solutions.engine.speculation.propose import FROM_DEVICE, LONGEST, NO_DRAFT, propose
from solutions.engine.speculation.verify import HEAD, verify

from .setting import ALL, NONE, WITHOUT, Setting, add, mixed_requests, serve, small, tokens_of

NUM_DRAFTS = 3


def drafting(config, num_drafts=NUM_DRAFTS, **limits):
    return replace(
        config,
        num_drafts=num_drafts,
        capture_sizes=(config.limits.max_num_seqs,),
        limits=replace(config.limits, **limits),
    )


@pytest.fixture(scope="module")
def setting(accelerator):
    return Setting.of(small("flex", "spans"), accelerator)


def again_and_again(setting, length, seed, **sampling):
    """Returns a request whose prompt of `length` tokens repeats five tokens."""
    few = setting.asked(5, seed, **sampling)
    tokens = (few.prompt.tokens * length)[:length]
    return Asked(Prompt(tokens, []), few.sampling)


def by_chance(setting, length, seed, **sampling):
    wishes = SamplingParams(seed=seed, temperature=0.9, top_p=0.95, **sampling)
    return Asked(setting.prompt(length, seed), wishes)


def all_wishes(setting):
    """Returns nine requests, greedy and random, that use all sampling parameters; one has an
    image."""
    free = setting.answer(setting.asked(12, 1, max_tokens=8))
    return [
        setting.asked(12, 1, max_tokens=14),
        again_and_again(setting, 18, 2, max_tokens=14),
        setting.asked(14, 3, [(2, 9)], max_tokens=9),
        setting.asked(12, 1, max_tokens=14, stop_token=free[5]),
        by_chance(setting, 9, 4, max_tokens=9),
        by_chance(setting, 9, 4, max_tokens=6, presence_penalty=0.8),
        setting.asked(12, 1, max_tokens=6, bad_words=[free[:1], free[2:4]]),
        again_and_again(setting, 11, 5, max_tokens=7, logprobs=[0, 5]),
        setting.asked(20, 6, max_tokens=1),
    ]


@pytest.fixture(scope="module")
def without(setting):
    """Returns the engine's outputs for all_wishes() without speculation."""
    return serve(setting.engine(ALL, drafting(setting.config, 0)), all_wishes(setting))


def expect_the_same(engine, setting, without):
    outputs = serve(engine, all_wishes(setting))
    assert tokens_of(outputs) == tokens_of(without)
    assert [each.finish_reason for each in outputs] == [each.finish_reason for each in without]
    for found, right in zip(outputs, without, strict=True):
        assert [each.keys() for each in found.logprobs] == [each.keys() for each in right.logprobs]
        for one, other in zip(found.logprobs, right.logprobs, strict=True):
            assert list(one.values()) == pytest.approx(list(other.values()), abs=1e-4)
    assert engine.served.num_drafted >= engine.served.num_accepted > 0


def test_whatever_is_wished_for_the_tokens_are_those_without_speculation(
    accelerator, setting, without
):
    engine = setting.engine(ALL, drafting(setting.config))
    with debubble.record(accelerator) as timeline:
        expect_the_same(engine, setting, without)
    assert timeline.hazards == []


@pytest.mark.deep
@pytest.mark.parametrize("optimizations", Optimizations.combinations(), ids=str)
def test_so_they_are_in_every_combination(setting, without, optimizations):
    expect_the_same(setting.engine(optimizations, drafting(setting.config)), setting, without)


@pytest.mark.deep
@pytest.mark.parametrize("num_drafts", [1, 2, 5, 7])
def test_so_they_are_with_any_number_of_drafts_and_prompts_in_graphs(setting, without, num_drafts):
    config = replace(drafting(setting.config, num_drafts), prefill_sizes=(24,))
    expect_the_same(setting.engine(ALL, config), setting, without)


@pytest.mark.deep(2)
@pytest.mark.parametrize("optimizations", [NONE, ALL], ids=str)
@pytest.mark.parametrize("sizes", [(), (2,)], ids=["none", "for two requests"])
def test_so_they_are_where_decodes_have_no_graph(setting, without, optimizations, sizes):
    """Steps with drafts run eagerly if no graph has room for them, also beside graphs of prompts
    that do."""
    config = replace(drafting(setting.config), capture_sizes=sizes, prefill_sizes=(24,))
    expect_the_same(setting.engine(optimizations, config), setting, without)


@pytest.mark.deep
@pytest.mark.parametrize("optimizations", [NONE, ALL], ids=str)
@pytest.mark.parametrize("seed", [1, 2])
def test_so_they_are_for_requests_that_share_blocks_and_give_way(accelerator, optimizations, seed):
    """Answers with speculation are right for requests that share 5 blocks, run prompts in parts,
    reuse prefixes and are preempted."""
    limits = {"num_gpu_blocks": 6, "max_num_batched_tokens": 40}
    setting = Setting.of(small("spans", limits=limits, num_cpu_blocks=32), accelerator)
    all_asked = [
        replace(asked, sampling=replace(asked.sampling, max_tokens=4 + 2 * (number % 9)))
        for number, asked in enumerate(mixed_requests(setting.config.model, 12, seed))
    ]
    engine = setting.engine(optimizations, drafting(setting.config))
    assert tokens_of(serve(engine, all_asked)) == setting.answers(all_asked)
    assert engine.scheduler.num_preemptions > 0


@pytest.mark.sim
@pytest.mark.parametrize("sync_free", [True, False], ids=["sync_free", "as it was"])
def test_a_steady_step_with_drafts_waits_for_nothing(accelerator, attention_only, sync_free):
    """The host waits for nothing in a steady step with drafts and sync_free on. With sync_free off
    it waits at each upload, and in ngram.py only if there are new requests."""
    optimizations = ALL if sync_free else WITHOUT["sync_free"]
    engine = attention_only.engine(optimizations, drafting(attention_only.config))
    for number in range(4):
        of = by_chance if number % 2 else again_and_again
        add(engine, of(attention_only, 9, number, max_tokens=30))
    timelines = []
    for _ in range(6):
        accelerator.synchronize()
        with debubble.record(accelerator) as timeline:
            engine.step()
        timelines.append(timeline)
    assert [hazard for timeline in timelines for hazard in timeline.hazards] == []
    told, *_, steady = [timeline.counts() for timeline in timelines]
    places = [
        {each.source.file.rpartition("/")[2] for each in timeline.events if each.kind == "sync"}
        for timeline in (timelines[0], timelines[-1])
    ]
    assert steady["graph_launches"] == steady["d2h"] == 1
    if sync_free:
        assert (told["host_syncs"], steady["host_syncs"]) == (0, 0)
        assert (steady["h2d_pageable"], steady["h2d_pinned"]) == (0, 1)
    else:
        assert "ngram.py" in places[0], "where the tables are told of new requests"
        assert "ngram.py" not in places[1], "no request is new"
        assert steady["host_syncs"] == steady["h2d_pageable"] + 1
    assert engine.served.num_accepted > 0


def test_accepted_drafts_are_counted_and_spare_steps(attention_only):
    """The number of accepted drafts is right: each step yields one token, and one more for each
    accepted draft."""
    engine = attention_only.engine(WITHOUT["sync_free"], drafting(attention_only.config))
    asked = again_and_again(attention_only, 18, 2, max_tokens=20)
    request = engine.request(add(engine, asked))
    engine.step()
    num_steps = 0
    while engine.requests:
        engine.step()
        num_steps += 1
    assert request.generated == attention_only.answer(asked)
    assert len(request.generated) == 1 + num_steps + engine.served.num_accepted
    assert engine.served.num_drafted <= NUM_DRAFTS * num_steps


def test_a_step_of_drafts_has_as_many_tokens_of_each_request(attention_only):
    engine = attention_only.engine(ALL, drafting(attention_only.config))
    requests = [engine.request(add(engine, attention_only.asked(5, n))) for n in range(2)]
    rows = [ScheduledRequest(request, 4, 5, True) for request in requests]
    for request in requests:
        request.blocks, request.slot = [1], 0
    tables = SlotTables.of(requests, engine.config.limits)
    batch = DraftedBatch.of_decodes(rows, tables, NUM_DRAFTS)
    assert batch.query_lens.tolist() == [1 + NUM_DRAFTS] * 2
    assert len(batch.token_ids) == len(batch.token_sources) == batch.num_tokens == 8


def test_what_was_drafted_is_in_the_cache_for_what_follows(attention_only):
    """Accepted drafts are in the KV cache for the tokens after them: the answer is right although
    its prompt has only two tokens."""
    engine = attention_only.engine(WITHOUT["sync_free"], drafting(attention_only.config))
    asked = attention_only.asked(2, 7, max_tokens=10)
    assert tokens_of(serve(engine, [asked])) == attention_only.answers([asked])


def test_only_requests_with_penalties_are_counted(accelerator, attention_only):
    """Prompt tokens are counted only for requests with penalties; the tables record the tokens of
    every request."""
    engine = attention_only.engine(ALL, drafting(attention_only.config))
    for number, wishes in enumerate(({}, {"presence_penalty": 0.5})):
        add(engine, attention_only.asked(5, number, **wishes))
    engine.step()
    tables = engine.runner.inputs.tables
    slots = [request.slot for request in engine.requests]
    assert [bool(tables.num_tokens[slot]) for slot in slots] == [True, True]
    assert [bool(tables.prompt_bin_mask[slot].any()) for slot in slots] == [False, True]


def drafts_of(said, end):
    """Returns the NUM_DRAFTS drafts of a request with the tokens `said`, by plain Python: what
    followed the longest earlier match with its end. NO_DRAFT from `end` on, or without a match."""
    best = (0, 0)
    for place in range(1, len(said)):
        alike = 0
        while alike < min(place, LONGEST) and said[place - 1 - alike] == said[-1 - alike]:
            alike += 1
        best = max(best, (alike, place))
    alike, place = best
    drafts = list(said)
    while len(drafts) < len(said) + NUM_DRAFTS:
        drafts.append(drafts[len(drafts) - (len(said) - place)])
    return [
        token if alike and len(said) + 1 + number < end else NO_DRAFT
        for number, token in enumerate(drafts[len(said) :])
    ]


def test_drafts_and_the_step_that_tries_them_are_as_numpy_has_them(accelerator):
    """The kernels that propose drafts and lay out the next step agree with NumPy, for five requests
    and an empty sixth row. Only the device knows the second one's length."""
    random, device, page, slots = np.random.default_rng(3), accelerator.device, 16, 6
    lengths = [1, 9, 30, 47, 22]
    said = [random.integers(3, size=length).tolist() for length in lengths]
    said[2] = [*range(30)]
    ends = [60, 60, 60, 49, 23]
    table = np.zeros((slots, 4), np.int32)
    for row, length in enumerate(lengths):
        used = -(-(length + 2) // page)
        table[row, :used] = 1 + 4 * row + np.arange(used)
    ids = np.zeros((slots + 1, 64), np.int32)
    of_row = [5, 0, 3, 1, 2, slots]
    for slot, tokens in zip(of_row, said, strict=False):
        ids[slot, : len(tokens)] = tokens
    told, known = [*lengths, 0], np.zeros(slots + 1, np.int32)
    known[0], told[1] = told[1], FROM_DEVICE
    wishes = random.integers(9, size=(slots, WIDTH)).astype(np.int32)

    def there(values, dtype=torch.int32):
        return torch.tensor(np.asarray(values), dtype=dtype).to(device)

    width = 1 + NUM_DRAFTS
    tokens = [there(np.full(slots * width, 99)) for _ in range(3)]
    seq_lens, starts = there([99] * slots), there([99] * slots)
    drafts, row_slots = there(np.full((slots, NUM_DRAFTS), 99)), there([99] * slots * width)
    row_wishes = there(np.full((slots * width, WIDTH), 99))
    ends_there, slots_there = there([*ends, 0]), there(of_row)
    propose(
        there(ids), there(known), there(told), ends_there, slots_there, there(table),
        there(wishes), (*tokens, seq_lens), starts, drafts, row_wishes, row_slots, slots, page,
    )  # fmt: skip
    right = [drafts_of(tokens_of_row, end) for tokens_of_row, end in zip(said, ends, strict=True)]
    assert drafts.tolist() == [*right, [NO_DRAFT] * NUM_DRAFTS]
    assert [NO_DRAFT] * NUM_DRAFTS in right and any(min(each) >= 0 for each in right)
    assert starts.tolist() == [*lengths, 0]
    assert seq_lens.tolist() == [*(length + NUM_DRAFTS for length in lengths), 0]
    found = [each.view(slots, width).tolist() for each in tokens]
    for row, length in enumerate(lengths):
        positions = range(length - 1, length + NUM_DRAFTS)
        assert found[0][row] == [said[row][-1], *(max(token, 0) for token in right[row])]
        assert found[1][row] == [*positions]
        blocks = [int(table[row, position // page]) for position in positions]
        assert found[2][row] == [
            block * page + position % page if block else -1
            for block, position in zip(blocks, positions, strict=True)
        ]
    assert found[2][slots - 1] == [-1] * width
    assert row_slots.view(slots, width).tolist() == [[slot] * width for slot in of_row]
    row_wishes = row_wishes.view(slots, width, WIDTH).cpu().numpy()
    for row, length in enumerate(lengths):
        for place in range(width):
            of_token = wishes[row].copy()
            of_token[Column.POSITION] = length + place
            of_token[Column.COUNTED_IN] *= place == 0
            assert (row_wishes[row, place] == of_token).all()
    assert not row_wishes[-1].any()

    # The sampled tokens equal the drafts, up to a different place in each row.
    chosen = drafts.cpu().long().clamp(min=0)
    chosen = torch.cat([chosen, torch.full((slots, 1), 7)], 1)
    wrong = [0, 1, 2, 3, 3, 0]
    for row, place in enumerate(wrong):
        chosen[row, place] = 77
    num_known, last = there(known), there(np.zeros(slots + 1), torch.int64)
    answers = there(np.zeros((slots, HEAD + width)), torch.int64)
    chosen = chosen.reshape(-1).to(device)
    verify(chosen, drafts, starts, ends_there, slots_there, num_known, last, answers)
    for row, (length, end) in enumerate(zip(lengths, ends, strict=True)):
        accepted = 0
        while accepted < wrong[row] and right[row][accepted] >= 0:
            accepted += 1
        count = min(accepted + 1, end - length)
        start, num_tokens, num_drafted, *of_row_said = answers[row].tolist()
        assert (start, num_tokens) == (length, count)
        assert num_drafted == sum(draft >= 0 for draft in right[row])
        assert of_row_said == chosen.view(slots, width)[row].tolist()
        assert num_known[of_row[row]] == length + count
        assert last[of_row[row]] == of_row_said[count - 1]
    assert answers[-1, 1] == 0


@pytest.mark.parametrize(
    "config, changes, said",
    [
        (small("gdn", "flex"), {"num_drafts": 2}, "Gated DeltaNet"),
        (small("flex"), {"num_drafts": -1}, "num_drafts -1"),
        (small("flex"), {"num_drafts": 1.5}, "num_drafts 1.5"),
        (small("flex"), {"num_drafts": 16}, "has room for 15"),
    ],
    ids=str,
)
def test_what_speculation_can_not_do_is_refused(config, changes, said):
    with pytest.raises(ValueError, match=said):
        replace(config, **changes)


def test_a_request_leaves_room_for_the_drafts_behind_its_end(attention_only):
    engine = attention_only.engine(ALL, drafting(attention_only.config))
    longest = attention_only.config.limits.max_model_len - NUM_DRAFTS
    asked = again_and_again(attention_only, longest - 6, 3, max_tokens=6)
    assert tokens_of(serve(engine, [asked])) == attention_only.answers([asked])
    with pytest.raises(ValueError, match=f"at most {longest}"):
        add(engine, again_and_again(attention_only, longest - 6, 3, max_tokens=7))
