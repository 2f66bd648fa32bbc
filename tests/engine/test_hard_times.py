"""No memory, requests that nobody waits for any more, links that break: the others never notice."""

from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

import pytest

from solutions.engine import EngineConfig
from solutions.engine.request import Status

from .setting import ALL, NONE, add, serve, small, tokens_of
from .symbolic_device import check_blocks, symbolic_engine

EACH_WAY = pytest.mark.parametrize("optimizations", [ALL, NONE], ids=str)


def with_blocks(config: EngineConfig, num_gpu_blocks: int) -> EngineConfig:
    return replace(config, limits=replace(config.limits, num_gpu_blocks=num_gpu_blocks))


def holdings(engine):
    """What can be counted of blocks, slots and host memory."""
    scheduler, offloader = engine.scheduler, engine.offloader
    found = [scheduler.blocks.num_free, sorted(scheduler._free_slots), scheduler.has_requests]
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
    """The link, for transfers that begin now."""

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
