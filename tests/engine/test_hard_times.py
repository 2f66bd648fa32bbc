"""Missing memory, cancelled requests, broken links: other requests never notice."""

from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

import pytest

from solutions.engine import EngineConfig, SamplingParams, Status
from solutions.engine.requests.workload import make_prompt
from solutions.offload.paths import descriptors as descriptor_buffers

from .setting import ALL, NONE, Setting, add, serve, small, tokens_of
from .symbolic_device import check_blocks, symbolic_engine

V = 64
"""The number of token ids that stand for text."""
EACH_WAY = pytest.mark.parametrize("optimizations", [NONE, ALL], ids=str)


def with_blocks(config: EngineConfig, num_gpu_blocks: int) -> EngineConfig:
    return replace(config, limits=replace(config.limits, num_gpu_blocks=num_gpu_blocks))


def holdings(engine):
    """Returns everything that the engine holds, to compare before and after: the number of free
    blocks, free slots, requests, and loads of host memory."""
    scheduler, offloader = engine.scheduler, engine.offloader
    requests = [*scheduler.waiting, *scheduler.loading, *scheduler.running]
    found = [scheduler.blocks.num_free, sorted(scheduler._free_slots), requests]
    if offloader:
        for manager in filter(None, (offloader.blocks, offloader.kept)):
            found.append(sum(block.num_loads for block in manager._blocks.values()))
    return found


@EACH_WAY
def test_where_blocks_run_out_all_answers_are_right(attention_only, optimizations):
    engine = attention_only.engine(optimizations, with_blocks(attention_only.config, 4))
    all_asked = [attention_only.asked(13 + seed, seed, max_tokens=6) for seed in range(4)]
    before = holdings(engine)
    outputs = serve(engine, all_asked)
    assert engine.scheduler.num_preemptions > 0
    assert tokens_of(outputs) == attention_only.answers(all_asked)
    assert holdings(engine) == before


def test_states_of_preempted_requests_are_computed_again(hybrid):
    config = replace(with_blocks(hybrid.config, 4), num_cpu_blocks=0)
    engine = hybrid.engine(ALL, config)
    all_asked = [hybrid.asked(14 + seed, seed, max_tokens=4) for seed in range(3)]
    outputs = serve(engine, all_asked)
    assert engine.scheduler.num_preemptions > 0
    assert tokens_of(outputs) == hybrid.answers(all_asked)


@EACH_WAY
def test_a_request_cancelled_while_it_waits_was_never_there(attention_only, optimizations):
    engine = attention_only.engine(optimizations)
    all_asked = [attention_only.asked(9, seed, max_tokens=3) for seed in range(6)]
    before = holdings(engine)
    ids = [add(engine, asked) for asked in all_asked]
    outputs = engine.step()
    assert engine.request(ids[5]).status is Status.WAITING
    engine.cancel(ids[5])
    outputs = {output.request_id: output for output in [*outputs, *engine.run()]}
    assert (outputs[ids[5]].token_ids, outputs[ids[5]].finish_reason) == ([], "cancelled")
    assert [outputs[i].token_ids for i in ids[:5]] == attention_only.answers(all_asked[:5])
    assert holdings(engine) == before


@EACH_WAY
def test_a_request_cancelled_while_it_runs_has_said_what_is_known(attention_only, optimizations):
    engine = attention_only.engine(optimizations)
    all_asked = [attention_only.asked(9, seed, max_tokens=7) for seed in range(3)]
    before = holdings(engine)
    ids = [add(engine, asked) for asked in all_asked]
    for _ in range(3):
        assert engine.step() == []
    request = engine.request(ids[1])
    assert request.in_flight == (1 if optimizations.sync_free else 0)
    num_known = len(request.generated)
    engine.cancel(ids[1])
    late = add(engine, attention_only.asked(11, 9, max_tokens=3))
    outputs = {output.request_id: output for output in engine.run()}
    right = attention_only.answers(all_asked)
    assert outputs[ids[1]].token_ids == right[1][:num_known]
    assert [outputs[ids[number]].token_ids for number in (0, 2)] == [right[0], right[2]]
    assert outputs[late].token_ids == attention_only.answer(
        attention_only.asked(11, 9, max_tokens=3)
    )
    assert holdings(engine) == before


def test_a_request_cancelled_while_its_prefix_is_on_its_way_keeps_its_blocks_until_it_has_come(
    accelerator,
):
    engine = symbolic_engine(small(num_cpu_blocks=16))
    prompt = list(range(40))
    engine.add_request(prompt)
    engine.run()
    engine.reset_prefix_cache()
    before = holdings(engine)
    engine.add_request([1], request_id="other")
    engine.step()
    engine.add_request(prompt, request_id="loading")
    engine.step()
    request = engine.request("loading")
    assert request.status is Status.LOADING
    engine.cancel("loading")
    assert len(request.blocks) == 2
    assert holdings(engine)[-1] == 1, "the host's state is pinned"
    check_blocks(engine)
    engine.offloader.load.end(1)
    engine.step()
    assert request.blocks == []
    engine.run()
    assert holdings(engine) == before


@pytest.mark.deep(2)
@EACH_WAY
def test_who_comes_next_may_have_what_a_lost_load_has_brought(hybrid, optimizations):
    engine = hybrid.engine(optimizations)
    long, short = hybrid.asked(40, 1, max_tokens=2), hybrid.asked(9, 2, max_tokens=3)
    serve(engine, [long])
    engine.reset_prefix_cache()
    before = holdings(engine)
    ids = [add(engine, short)]
    engine.step()
    ids.append(add(engine, long))
    engine.step()
    assert engine.request(ids[1]).status is Status.LOADING
    engine.cancel(ids[1])
    ids.append(add(engine, long))
    outputs = {output.request_id: output for output in engine.run()}
    assert [outputs[i].token_ids for i in ids] == [hybrid.answer(short), [], hybrid.answer(long)]
    assert outputs[ids[2]].num_cached == 32
    assert holdings(engine) == before


@contextmanager
def broken(handler):
    """Makes transfers of this handler that begin inside the block fail."""

    def refuse(*descriptors):
        raise RuntimeError("the link is down")

    with mock.patch.object(handler, "swap", refuse):
        yield


def test_a_prefix_whose_load_fails_is_computed_and_its_request_says_so(hybrid):
    engine = hybrid.engine()
    all_asked = [hybrid.asked(40, 1, max_tokens=3), hybrid.asked(9, 2, max_tokens=3)]
    serve(engine, all_asked)
    engine.reset_prefix_cache()
    before = holdings(engine)
    with broken(engine.offloader.load):
        computed, other = serve(engine, all_asked)
    assert computed.notes == ["its prefix was computed, since loading it failed: the link is down"]
    assert (computed.num_cached, other.notes) == (0, [])
    assert tokens_of([computed, other]) == hybrid.answers(all_asked)
    assert holdings(engine) == before
    engine.reset_prefix_cache()
    (loaded,) = serve(engine, all_asked[:1])
    assert (loaded.num_cached, loaded.notes) == (32, []), "host memory has lost nothing"
    assert loaded.token_ids == computed.token_ids


def test_a_model_without_attention_gets_its_states_back_from_host_memory(accelerator):
    """The cached states of a model without attention, whose blocks have 0 bytes, are loaded from
    host memory after the device forgot them."""
    setting = Setting.of(small("gdn", num_cpu_blocks=32, capture_sizes=(1,)), accelerator)
    engine = setting.engine()
    asked = setting.asked(40, 1, max_tokens=3)
    before = holdings(engine)
    (computed,) = serve(engine, [asked])
    engine.reset_prefix_cache()
    (loaded,) = serve(engine, [asked])
    assert [output.num_cached for output in (computed, loaded)] == [0, 32]
    assert tokens_of([computed, loaded]) == [setting.answer(asked)] * 2
    assert holdings(engine) == before


def test_what_could_not_be_stored_is_computed_again(hybrid):
    engine = hybrid.engine()
    asked = hybrid.asked(40, 1, max_tokens=3)
    before = holdings(engine)
    with broken(engine.offloader.store):
        (first,) = serve(engine, [asked])
    assert holdings(engine) == before
    engine.reset_prefix_cache()
    (second,) = serve(engine, [asked])
    engine.reset_prefix_cache()
    (third,) = serve(engine, [asked])
    assert [output.num_cached for output in (first, second, third)] == [0, 0, 32]
    assert tokens_of([first, second, third]) == [hybrid.answer(asked)] * 3
    assert first.notes == second.notes == []


def test_who_gave_way_does_not_come_back_at_once_for_the_same_blocks(accelerator):
    """A request that gave way to an older one doesn't begin the same load again and again, while a
    second request still holds the block that both share."""
    few = {"max_num_batched_tokens": 48, "max_model_len": 48, "num_gpu_blocks": 4}
    config = small("gdn", "flex", limits=few, num_cpu_blocks=16, num_states=1, num_cpu_states=8)
    engine = symbolic_engine(config)
    one, shared, other = SamplingParams(max_tokens=1), list(range(16)), list(range(20, 36))
    for prompt in ([*shared, 50], other, [*shared, 51]):  # the state of `shared` leaves the device
        engine.generate([prompt], one)
    begin_load, loads = engine.offloader.begin_load, []

    def counted(*load):
        loads.append(load)
        assert len(loads) < 50, "the same loads begin again and again, and nothing else happens"
        begin_load(*load)

    engine.offloader.begin_load = counted
    long = [(7 * i + 3) % V for i in range(40)]
    ids = [engine.add_request(prompt, one) for prompt in (long, [*shared, 52], [*shared, 53])]
    assert {output.request_id for output in engine.run()} == {*ids}
    assert loads
    check_blocks(engine)


@pytest.mark.deep(3)
@EACH_WAY
@pytest.mark.parametrize("broken", ["run", "sample"])
@pytest.mark.parametrize(
    "error", [RuntimeError("CUDA out of memory"), KeyboardInterrupt()], ids=repr
)
def test_a_step_that_raises_is_computed_anew(hybrid, optimizations, broken, error):
    """A step that raises, in the model or in sampling, is computed again by the next call, with the
    right answers and nothing left over. (The steps prefill a part, and decode beside a prefill.)"""
    limits = replace(hybrid.config.limits, max_num_batched_tokens=16)
    engine = hybrid.engine(optimizations, replace(hybrid.config, limits=limits))
    all_asked = [hybrid.asked(40, 1, max_tokens=3), hybrid.asked(5, 2, max_tokens=4)]
    before = holdings(engine)
    ids = [add(engine, asked) for asked in all_asked]
    of = {"run": engine.runner, "sample": engine.runner.sampler}[broken]
    outputs = []
    for _ in range(4):
        with mock.patch.object(of, broken, side_effect=error), pytest.raises(type(error)):
            engine.step()
        outputs += engine.step()
    outputs += engine.run()
    answers = {output.request_id: output.token_ids for output in outputs}
    assert [answers[request_id] for request_id in ids] == hybrid.answers(all_asked)
    again = serve(engine, all_asked)
    assert tokens_of(again) == hybrid.answers(all_asked)
    assert holdings(engine) == before


@pytest.fixture
def no_pinned_memory():
    """Returns a patch; while it is active, a transfer raises RuntimeError because there is no
    pinned memory for its descriptors."""

    def refuse(capacity):
        raise RuntimeError("CUDA error: out of memory")

    return mock.patch.object(descriptor_buffers, "_new_descriptor_buffers", refuse)


def test_who_could_not_begin_to_load_loses_nothing_and_nobody_else_does(hybrid, no_pinned_memory):
    """A request whose load can't begin stays waiting, and is loaded by a later step. Another
    request, which decodes meanwhile, gets its right answer."""
    engine = hybrid.engine()
    all_asked = [hybrid.asked(5, 2, max_tokens=8), hybrid.asked(40, 1, max_tokens=3)]
    serve(engine, all_asked[1:])
    engine.reset_prefix_cache()
    before = holdings(engine)
    ids = [add(engine, all_asked[0])]
    engine.step()
    ids.append(add(engine, all_asked[1]))
    with no_pinned_memory, pytest.raises(RuntimeError, match="out of memory"):
        engine.step()
    assert engine.request(ids[1]).status is Status.WAITING
    outputs = {output.request_id: output for output in engine.run()}
    assert [outputs[i].token_ids for i in ids] == hybrid.answers(all_asked)
    assert outputs[ids[1]].num_cached == 32, "it was loaded after all"
    assert holdings(engine) == before


def test_what_could_not_begin_to_be_stored_is_stored_another_time(hybrid, no_pinned_memory):
    engine = hybrid.engine()
    asked = hybrid.asked(40, 1, max_tokens=3)
    before = holdings(engine)
    request_id = add(engine, asked)
    with no_pinned_memory, pytest.raises(RuntimeError, match="out of memory"):
        engine.step()
    outputs = engine.run()
    assert [output.request_id for output in outputs] == [request_id]
    engine.reset_prefix_cache()
    outputs += serve(engine, [asked])
    engine.reset_prefix_cache()
    outputs += serve(engine, [asked])
    # The first request restarted after its own prefix, which the device still had.
    assert [output.num_cached for output in outputs] == [32, 0, 32]
    assert tokens_of(outputs) == [hybrid.answer(asked)] * 3
    assert holdings(engine) == before


@pytest.mark.deep(2)
@EACH_WAY
def test_who_did_not_get_a_state_that_is_kept_gets_it_another_time(hybrid, optimizations):
    engine = hybrid.engine(optimizations)
    all_asked = [hybrid.asked(5, 2, max_tokens=6), hybrid.asked(40, 1, max_tokens=3)]
    serve(engine, all_asked[1:])
    before = holdings(engine)
    ids = [add(engine, all_asked[0])]
    engine.step()
    ids.append(add(engine, all_asked[1]))
    copying = mock.patch.object(engine.model.states, "_copy", side_effect=KeyboardInterrupt)
    with copying, pytest.raises(KeyboardInterrupt):
        engine.step()
    outputs = {output.request_id: output for output in engine.run()}
    assert [outputs[i].token_ids for i in ids] == hybrid.answers(all_asked)
    assert outputs[ids[1]].num_cached == 32
    assert holdings(engine) == before
    assert not any(block.num_loads for block in engine.model.states.kept._blocks.values())


@EACH_WAY
def test_nobody_is_let_in_for_blocks_that_an_older_request_waits_for(accelerator, optimizations):
    """A younger request isn't admitted with blocks that an older one waits for while a store holds
    the rest. It would have to give way in the next step."""
    few = {"num_gpu_blocks": 4, "max_model_len": 48, "max_num_batched_tokens": 20}
    engine = symbolic_engine(small("spans", limits=few, num_cpu_blocks=2), optimizations)
    prompts = [
        make_prompt(engine.config.model, length, images, seed)
        for seed, (length, images) in enumerate(
            [(17, ()), (34, [(1, 12), (13, 24)]), (34, [(10, 20)])]
        )
    ]
    for prompt, max_tokens in zip(prompts, (1, 2, 2), strict=True):
        sampling = SamplingParams(max_tokens=max_tokens)
        engine.add_request(prompt.tokens, sampling, images=prompt.images)
    outputs = []
    for _ in range(20):
        outputs += engine.step()
        check_blocks(engine)
    assert engine.scheduler.num_preemptions <= 1
    assert len([*outputs, *engine.run()]) == 3


@EACH_WAY
def test_a_wait_for_tokens_that_is_interrupted_loses_none(attention_only, optimizations):
    engine = attention_only.engine(optimizations)
    asked = attention_only.asked(5, 1, max_tokens=4)
    add(engine, asked)
    engine.step()
    kind = engine.runner.seams.step.read_back
    with mock.patch.object(kind, "read", side_effect=KeyboardInterrupt):
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                engine.step()
    (output,) = engine.run()
    assert output.token_ids == attention_only.answer(asked)


def test_what_had_ended_before_a_run_was_interrupted_is_reported_by_the_next(attention_only):
    engine = attention_only.engine()
    all_asked = [attention_only.asked(5, seed, max_tokens=1 + 4 * seed) for seed in range(2)]
    ids = [add(engine, asked) for asked in all_asked]
    steps = [*[mock.DEFAULT] * 3, KeyboardInterrupt, *[mock.DEFAULT] * 9]
    run = engine.runner.run
    with (
        mock.patch.object(engine.runner, "run", wraps=run, side_effect=steps),
        pytest.raises(KeyboardInterrupt),
    ):
        engine.run()
    outputs = {output.request_id: output.token_ids for output in engine.run()}
    assert [outputs[request_id] for request_id in ids] == attention_only.answers(all_asked)
