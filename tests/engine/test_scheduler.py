"""Continuous batching: which requests run in a step, how far, and which are preempted."""

from dataclasses import replace

import pytest

from solutions.engine import EngineConfig, SamplingParams, Status
from solutions.engine.requests.workload import make_prompt

from .setting import add, mixed_requests, small
from .symbolic_device import check_blocks, right_answer, symbolic_engine

SIZE = 16
STATES = ("gdn", "spans")


def engine_of(*pattern, num_gpu_blocks=28, budget=64, **changes):
    limits = {"num_gpu_blocks": num_gpu_blocks, "max_num_batched_tokens": budget}
    return symbolic_engine(small(*(pattern or ("spans",)), limits=limits, **changes))


def add_tokens(engine, num_tokens, seed=0, images=(), **sampling):
    """Adds a request with a made-up prompt of `num_tokens` tokens, and returns the engine's
    request."""
    prompt = make_prompt(engine.config.model, num_tokens, images, seed)
    sampling = SamplingParams(**sampling)
    return engine.request(engine.add_request(prompt.tokens, sampling, images=images))


def parts_of(engine):
    """Runs until no request is left. Returns for each step {request id: positions that it
    computed}, in batch order."""
    steps = []
    run = engine.runner.run

    def noted(batch, padded_rows=0):
        steps.append({row.request.request_id: row.positions for row in batch.rows})
        return run(batch, padded_rows)

    engine.runner.run = noted
    engine.run()
    return steps


def ends(steps, request):
    return [step[request.request_id].stop for step in steps if request.request_id in step]


@pytest.mark.parametrize("pattern", [("spans",), STATES], ids=str)
@pytest.mark.parametrize("budget", [17, 24, 64])
def test_no_step_has_more_tokens_than_the_budget(pattern, budget):
    engine = engine_of(*pattern, budget=budget)
    for asked in mixed_requests(engine.config.model, 24, seed=1):
        add(engine, asked)
    steps = parts_of(engine)
    assert max(sum(map(len, step.values())) for step in steps) <= budget
    assert max(map(len, steps)) <= engine.config.limits.max_num_seqs


def test_what_ends_in_quiet_steps_the_next_step_reports():
    engine = engine_of()
    request = add_tokens(engine, 5, max_tokens=2)
    for _ in range(3):
        engine.step(reports=False)
    assert len(request.generated) == 2 and not engine.requests
    assert [output.request_id for output in engine.step()] == [request.request_id]


def test_steps_of_drafts_reach_as_far_as_the_device_may_be():
    """Steps with drafts give the right answers. The symbolic device also checks their lengths,
    which the host knows only as an upper limit."""
    engine = engine_of(num_drafts=2, capture_sizes=(4,))
    requests = [add_tokens(engine, 5 + seed, seed, max_tokens=9) for seed in range(2)]
    engine.run()
    vocab_size = engine.config.model.vocab_size
    for request in requests:
        assert request.generated == right_answer(request, vocab_size)
    assert engine.served.num_accepted > 0


def test_a_long_prompt_takes_several_steps_and_others_run_beside_it():
    engine = engine_of(budget=24)
    long, short = add_tokens(engine, 50, max_tokens=1), add_tokens(engine, 5, max_tokens=1)
    steps = parts_of(engine)
    assert ends(steps, long) == [24, 48, 50]
    assert ends(steps, short) == [5]
    assert [len(step) for step in steps] == [1, 1, 2]


def test_what_a_decode_leaves_of_the_budget_is_the_prefills():
    engine = engine_of(budget=24)
    add_tokens(engine, 3, max_tokens=9)
    engine.step()
    long = add_tokens(engine, 50, max_tokens=1)
    assert ends(parts_of(engine), long) == [23, 46, 50]


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        ([(20, 30)], [20, 44, 50]),
        ([(20, 23)], [24, 48, 50]),
        ([(24, 40)], [24, 48, 50]),
        ([(23, 46)], [23, 47, 50]),
        ([(0, 23), (24, 47)], [24, 48, 50]),
    ],
)
def test_a_part_never_ends_inside_an_image(images, expected):
    engine = engine_of(budget=24)
    request = add_tokens(engine, 50, images=images, max_tokens=1)
    assert ends(parts_of(engine), request) == expected


@pytest.mark.parametrize(
    ("num_tokens", "expected"),
    [(10, [10]), (16, [16]), (17, [16, 17]), (32, [16, 32]), (40, [32, 40])],
)
def test_where_states_are_kept_a_prompt_pauses_behind_its_last_full_block(num_tokens, expected):
    engine = engine_of(*STATES)
    request = add_tokens(engine, num_tokens, max_tokens=1)
    assert ends(parts_of(engine), request) == expected


def test_where_states_are_kept_parts_of_a_small_budget_end_at_blocks_too():
    engine = engine_of(*STATES, budget=24)
    request = add_tokens(engine, 60, max_tokens=1)
    assert ends(parts_of(engine), request) == [16, 32, 48, 60]


def test_an_image_over_the_end_of_a_block_is_not_cut_for_a_state():
    engine = engine_of(*STATES)
    request = add_tokens(engine, 40, images=[(28, 35)], max_tokens=1)
    assert ends(parts_of(engine), request) == [40]


def test_requests_begin_in_the_order_in_which_they_came():
    engine = engine_of(budget=20)
    requests = [add_tokens(engine, 15, seed, max_tokens=2) for seed in range(6)]
    first_steps = {}
    for number, step in enumerate(parts_of(engine)):
        for request_id in step:
            first_steps.setdefault(request_id, number)
    assert list(first_steps) == [request.request_id for request in requests]


def test_no_request_overtakes_one_that_has_no_room_yet():
    engine = engine_of(num_gpu_blocks=5)
    add_tokens(engine, 60, 0, max_tokens=3)
    large, small_one = add_tokens(engine, 40, 1), add_tokens(engine, 3, 2)
    engine.step()
    assert large.status is small_one.status is Status.WAITING


def test_a_request_that_ends_makes_room_in_the_next_step():
    engine = engine_of()
    requests = [add_tokens(engine, 3, seed, max_tokens=seed + 1) for seed in range(5)]
    steps = parts_of(engine)
    assert [requests[4].request_id in step for step in steps[:3]] == [False, False, True]


def test_where_blocks_run_out_the_last_to_begin_goes_first():
    engine = engine_of(num_gpu_blocks=4)
    requests = [add_tokens(engine, 15, seed, max_tokens=4) for seed in range(4)]
    for _ in range(3):
        engine.step()
    assert engine.scheduler.running == requests[:2]
    assert list(engine.scheduler.waiting) == requests[2:], "ahead of those that never began"
    assert requests[2].num_sampled > 0
    check_blocks(engine)


def test_a_preempted_request_goes_on_from_what_it_has_said():
    engine = engine_of(num_gpu_blocks=4)
    requests = [add_tokens(engine, 15, seed, max_tokens=6) for seed in range(3)]
    steps = parts_of(engine)
    assert engine.scheduler.num_preemptions > 0
    for request in requests:
        assert ends(steps, request)[-1] == 15 + 6 - 1
        assert len(request.generated) == 6


def test_a_preempted_request_waits_until_its_last_token_is_known():
    """A preempted request isn't scheduled while its last token is in flight: it may restart in a
    different slot, which doesn't have that token."""
    engine = engine_of(num_gpu_blocks=4)
    first, second = (add_tokens(engine, length, length, max_tokens=4) for length in (30, 15))
    engine.step()
    engine.scheduler._preempt(second)
    first.sampling = SamplingParams(max_tokens=1)
    assert second.in_flight == 1
    assert engine.scheduler.schedule() == []
    engine.run()
    assert len(second.generated) == 4


def test_a_prefix_that_another_request_computes_right_now_is_found():
    engine = engine_of()
    first = add_tokens(engine, 40, max_tokens=4)
    engine.step()
    second = add_tokens(engine, 40, max_tokens=1)
    engine.step()
    assert second.num_cached == 32
    assert second.blocks[:2] == first.blocks[:2]
    assert second.blocks[2] != first.blocks[2]
    engine.run()


def test_a_request_that_was_served_before_computes_its_last_token_only():
    engine = engine_of()
    add_tokens(engine, 33, max_tokens=1)
    engine.run()
    again = add_tokens(engine, 33, max_tokens=1)
    assert ends(parts_of(engine), again) == [33]
    assert again.num_cached == 32


def test_answers_are_found_too():
    """A request that continues an earlier prompt and its answer, as a chat does, finds the prompt's
    cached prefix."""
    engine = engine_of(*STATES)
    first = add_tokens(engine, 30, max_tokens=4)
    engine.run()
    tokens = first.tokens + [1] * 3
    request = engine.request(engine.add_request(tokens, SamplingParams(max_tokens=1)))
    engine.run()
    assert request.num_cached == 16, "a state is kept where a prefill ends, and not by decodes"


def test_a_prefix_that_the_device_has_forgotten_is_computed_again():
    engine = engine_of(*STATES)
    add_tokens(engine, 40, max_tokens=1)
    engine.run()
    engine.reset_prefix_cache()
    again = add_tokens(engine, 40, max_tokens=1)
    with pytest.raises(ValueError, match="requests are being served: let them end first"):
        engine.reset_prefix_cache()
    engine.run()
    assert again.num_cached == 0


def test_at_most_so_many_prefixes_are_on_their_way_at_once():
    engine = engine_of(num_gpu_blocks=9, num_cpu_blocks=16, loads_ahead=1)
    for seed in range(3):
        add_tokens(engine, 40, seed, max_tokens=1)
        engine.run()
    engine.reset_prefix_cache()
    add_tokens(engine, 3, 9, max_tokens=9)
    engine.step()
    again = [add_tokens(engine, 40, seed, max_tokens=1) for seed in range(2)]
    engine.step()
    assert [request.status for request in again] == [Status.LOADING, Status.WAITING]
    engine.run()
    assert [request.num_cached for request in again] == [32, 32]


def test_others_run_while_a_prefix_is_on_its_way():
    engine = engine_of(num_gpu_blocks=9, num_cpu_blocks=16)
    add_tokens(engine, 40, max_tokens=1)
    engine.run()
    engine.reset_prefix_cache()
    loading, other = add_tokens(engine, 40, max_tokens=1), add_tokens(engine, 5, 1, max_tokens=2)
    engine.step()
    assert (loading.status, other.num_sampled) == (Status.LOADING, 1)
    engine.offloader.load.end(1)
    engine.step()
    assert loading.num_cached == 32
    engine.run()


def test_a_block_that_is_being_stored_is_nobodys_to_have():
    engine = engine_of(num_gpu_blocks=4, num_cpu_blocks=16)
    add_tokens(engine, 40, 0, max_tokens=1)
    engine.step()
    engine.step()
    assert engine.scheduler.blocks.num_free == 1, "the request has ended, its copies have not"
    check_blocks(engine)
    engine.run()
    assert engine.scheduler.blocks.num_free == 3


def test_a_request_may_have_an_image_as_long_as_a_step():
    tiny = EngineConfig.tiny()
    engine = symbolic_engine(
        replace(tiny, limits=replace(tiny.limits, max_num_batched_tokens=24), num_cpu_blocks=0)
    )
    for seed in range(3):
        add_tokens(engine, 60, seed, images=[(5, 28), (30, 53)], max_tokens=3)
    engine.run()
    assert not engine.has_work


@pytest.mark.parametrize(
    ("pattern", "budget"),
    [(("spans",), 48), (("spans",), 47), (STATES, 48), (STATES, 15)],
    ids=["at_once", "one_token_is_left", "states_at_once", "states_one_token_is_left"],
)
def test_a_prompts_last_block_is_stored_however_short_its_last_part_is(pattern, budget):
    engine = engine_of(*pattern, budget=budget, num_cpu_blocks=16)
    first = add_tokens(engine, 48, max_tokens=1)
    engine.run()
    engine.reset_prefix_cache()
    again = engine.request(engine.add_request([*first.prompt, 1], SamplingParams(max_tokens=1)))
    engine.run()
    assert again.num_cached == 48


def test_blocks_that_decodes_fill_are_not_stored():
    engine = engine_of(num_cpu_blocks=16)
    request = add_tokens(engine, 20, max_tokens=20)
    engine.run()
    assert len(request.hashes) == 2
    assert engine.offloader.num_ready(request.hashes) == 1


class NeverRead(dict):
    """A dict of requests, by id, that must not be gone through."""

    def __iter__(self):
        raise AssertionError("all requests were read to add one")


def test_to_add_a_request_costs_the_same_however_many_wait():
    engine = engine_of()
    engine.served.by_id = NeverRead()
    prompt = make_prompt(engine.config.model, 3).tokens
    names = [engine.add_request(prompt) for _ in range(8_000)]
    assert names == [str(number) for number in range(8_000)]
    assert len(engine.scheduler.waiting) == 8_000


def test_an_engine_says_how_long_requests_waited_and_what_they_found():
    engine = engine_of(num_gpu_blocks=6)
    assert engine.stats().first_token_ms is None
    add_tokens(engine, 33, max_tokens=1)
    engine.run()
    add_tokens(engine, 33, max_tokens=12)
    for seed in (1, 2, 3):
        add_tokens(engine, 15, seed, max_tokens=30)
    engine.run()
    stats = engine.stats()
    assert stats.preemptions == engine.scheduler.num_preemptions > 0
    assert 32 / (2 * 33 + 3 * 15) <= stats.hit_rate < 1
    assert 0 < stats.first_token_ms <= stats.first_token_p95_ms
    assert 0 < stats.between_tokens_ms <= stats.between_tokens_p95_ms
    assert stats.steps > 12 and stats.wait_ms >= 0
    assert f"{stats.preemptions} preemptions" in str(stats)
