"""The decoder's slots are independent of one another."""

import pytest

import debubble
from solutions.offload.serving_loop.config import ServingConfig
from solutions.offload.serving_loop.model import SlotDecoder

CONFIG = ServingConfig.tiny()
BLOCKS = [[1, 2, 3], [4, 5, 6]]


@pytest.fixture
def decoder(accelerator):
    decoder = SlotDecoder(CONFIG, accelerator.device)
    decoder.capture()
    for cache in decoder.caches:
        cache.normal_()
    return decoder


def run(decoder, num_steps):
    for _ in range(num_steps):
        decoder.step()
    return decoder.output.tolist()


def test_a_request_generates_the_same_in_any_slot_and_any_company(decoder):
    decoder.start(0, BLOCKS[0], CONFIG.prefix_tokens, 5)
    alone = run(decoder, CONFIG.new_tokens)[0]
    decoder.start(0, BLOCKS[1], CONFIG.prefix_tokens, 9)
    decoder.start(1, BLOCKS[0], CONFIG.prefix_tokens, 5)
    other, again = run(decoder, CONFIG.new_tokens)
    assert again == alone != other


def test_a_slot_that_was_stopped_leaves_the_blocks_of_its_request_alone(accelerator, decoder):
    """Steps after a request was stopped don't write to its blocks: the next load gets them while
    the slot is still empty."""
    decoder.start(0, BLOCKS[0], CONFIG.prefix_tokens, 5)
    run(decoder, CONFIG.new_tokens)
    decoder.stop(0)
    for cache in decoder.caches:
        cache[1:].fill_(7.0)
    run(decoder, 2)
    assert all(bool((cache[1:] == 7.0).all()) for cache in decoder.caches)


def test_a_slot_that_is_never_stopped_stays_within_its_blocks(decoder):
    decoder.start(0, BLOCKS[0], CONFIG.prefix_tokens, 5)
    run(decoder, CONFIG.new_tokens)
    for cache in decoder.caches:
        cache.fill_(7.0)
    run(decoder, 3)
    for cache in decoder.caches:
        assert bool((cache[4:] == 7.0).all())


def test_a_step_is_one_launch_and_a_start_one_upload(accelerator, decoder):
    with debubble.record(accelerator) as timeline, debubble.no_host_syncs():
        decoder.start(0, BLOCKS[0], CONFIG.prefix_tokens, 5)
        decoder.step()
    counts = timeline.counts()
    assert (counts["graph_launches"], counts["host_syncs"], counts["d2h"]) == (1, 0, 0)
    assert counts["h2d_pinned"] == accelerator.pin_memory
