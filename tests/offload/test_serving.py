"""A served request generates the tokens that follow its own prefix, whichever way the prefix was
loaded and whatever else runs."""

from collections import Counter
from dataclasses import replace

import pytest
import torch

import debubble
from solutions.offload.bench import VARIANTS
from solutions.offload.serving_loop.config import ServingConfig
from solutions.offload.serving_loop.serving import Server
from tests.offload.plain_decoder import generate

CONFIG = ServingConfig.tiny()


@pytest.fixture(scope="module")
def server(accelerator):
    return Server(CONFIG, accelerator.device)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_request_generates_what_its_prefix_says(server, variant):
    tokens = server.serve(VARIANTS[variant](server.groups)).tolist()
    expected = [
        generate(server, index % CONFIG.num_prefixes, index % CONFIG.vocab_size)
        for index in range(CONFIG.num_requests)
    ]
    assert tokens == expected
    assert len(set(map(tuple, expected))) > CONFIG.num_prefixes, "the requests differ"


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_step_reads_what_is_still_on_its_way(accelerator, server, variant):
    load = VARIANTS[variant](server.groups)
    with debubble.record(accelerator) as timeline:
        server.serve(load)
    assert timeline.hazards == []


def test_a_step_is_one_graph_whoever_loads(accelerator, server):
    counts = {}
    for variant, handler in VARIANTS.items():
        load = handler(server.groups)
        with debubble.record(accelerator) as timeline:
            server.serve(load)
        counts[variant] = timeline.counts()
        assert counts[variant]["h2d_pageable"] == counts[variant]["d2h"] == 0
    steps_of_requests = CONFIG.num_requests * CONFIG.new_tokens
    for count in counts.values():
        assert steps_of_requests / CONFIG.max_running <= count["graph_launches"]
        assert count["graph_launches"] <= steps_of_requests


def test_a_server_can_be_used_again(server):
    load = VARIANTS["after"](server.groups)
    assert server.serve(load).tolist() == server.serve(load).tolist()


def test_a_prefix_that_others_use_too_lies_in_cpu_memory_once(server):
    blocks = [block for hashes in server.hashes for block in server.manager.prepare_load(hashes)]
    assert sorted(blocks) == list(range(CONFIG.num_prefixes * CONFIG.prefix_blocks))
    for hashes in server.hashes:
        server.manager.complete_load(hashes)
    used = Counter(index % CONFIG.num_prefixes for index in range(CONFIG.num_requests))
    assert max(used.values()) > 1


def test_a_load_that_fails_ends_the_run_with_its_reason(server):
    def refuse(*descriptors):
        raise RuntimeError("the link is down")

    load = VARIANTS["after"](server.groups)
    load.swap = refuse
    with pytest.raises(RuntimeError, match=r"request 0: .*the link is down"):
        server.serve(load)


def test_one_load_waits_on_the_device_only(accelerator, server):
    load = VARIANTS["after"](server.groups)
    server.load_one(load)
    accelerator.synchronize()
    with debubble.no_host_syncs():
        server.load_one(load)


def test_what_follows_one_load_reads_what_it_brought(accelerator, server):
    load = VARIANTS["after"](server.groups)
    with debubble.record(accelerator) as timeline:
        server.load_one(load)
        for cache in server.decoder.caches:
            cache.sum()
    assert timeline.hazards == []


def test_no_prefix_is_overwritten_while_it_is_stored(accelerator):
    with debubble.record(accelerator) as timeline:
        Server(CONFIG, accelerator.device)
    assert timeline.hazards == []


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"prefix_tokens": 7}, "only full blocks are offloaded"),
        ({"num_layers": 0}, "num_layers 0"),
        ({"num_heads": 3, "num_kv_heads": 2}, "must be a multiple"),
        ({"loads_ahead": 0}, "loads_ahead 0"),
        ({"dtype": torch.int8}, "weights of torch.int8"),
    ],
)
def test_a_config_that_cannot_be_served_is_refused(change, complaint):
    with pytest.raises(ValueError, match=complaint):
        replace(CONFIG, **change)


def test_the_pieces_of_a_rank_of_the_large_model_have_8_kib():
    config = ServingConfig.llama_3_70b_rank()
    assert config.page_bytes == 8192
    assert config.prefix_blocks * config.num_layers == 40_960
