"""Tests of the kata `sync_free_step`, in the order of the chapters."""

from collections import Counter
from functools import cache
from typing import NamedTuple
from unittest import mock

import pytest
import torch
from torch.nn.functional import rms_norm

import debubble
from debubble.exercises import (
    Common,
    Step,
    closed_gate,
    expect,
    expect_equal,
)

BLOCK = 8  # as in the kata
SIZE, VOCABULARY = 2 * BLOCK, 64
NUM_BLOCKS, NUM_HOST_BLOCKS = 24, 6
WRONG_TOKENS = (
    "The engine gave the right tokens as it came. What does this step read that you have changed: "
    "its inputs, the tokens that were sampled last, where its images are, its chunks?"
)
SPANS = (
    "Where the images lie is the same for every layer, and the host knows it before the first one. "
    "A tensor that is made in a layer is sent again in each, for each request with images, and the "
    "host waits for every one. Make one padded tensor for all requests, and send it once a step, "
    "with the other inputs (chapter 01: katas `padded_ranges` and `once_a_step`)."
)
INPUTS = (
    "`torch.tensor(..., device=...)` is a copy from pageable memory, and the host waits for it. "
    "All inputs of a step are known at the same time: put them one after the other into one pinned "
    "tensor, send it with non_blocking=True, and cut it apart on the device by `split` and `view` "
    "(chapter 02; chapter 03: kata `metadata_builder`). A slice of a pinned tensor with gaps "
    "between its rows travels as pageable memory does."
)
SAMPLED = (
    "The next step needs the sampled tokens on the device, where they are. Keep them there, one "
    "for each slot, and let the next step pick what it needs. The host only wants them for the "
    "user: start a copy to pinned memory, record an event after it, and leave the waiting to "
    "`read` (chapter 02: kata `data_parallel`)."
)
READ_LATE = (
    "Until its event has passed, pinned memory that a copy goes to holds something else: query the "
    "event, and wait for it if it has not passed. Wait for this event alone: the steps that were "
    "queued after it need no wait (chapter 02: kata `data_parallel`)."
)
IN_FLIGHT = (
    "A queued copy reads its pinned memory, or writes to it, when its turn comes. If the next step "
    "packs its inputs into the same memory, they may be uploaded in place of this step's inputs. "
    "Tokens that are read before the event after their copy has passed may be another step's. Take "
    "fresh pinned memory in each step: PyTorch keeps it until its copies are done (chapter 01: "
    "kata `staging_ring`; chapter 02: kata `data_parallel`)."
)
TABLES = (
    "The lengths come from the scheduler, so the host has them. Reading them back from the device "
    "waits for all that was queued before, in each layer. The table of chunks is the same for all "
    "layers. Make it on the host, once a step, and send it with the other inputs (chapter 03: kata "
    "`metadata_builder`)."
)
PAGES = (
    "Only the device knows how many pages `nonzero` finds, so the host waits in each layer, and no "
    "graph can capture that. Let attention read as many pages as a request may have, MOST_BLOCKS, "
    "and let the mask decide which count. All layers can share that mask (chapter 04: kata "
    "`custom_mask`)."
)
ONE_LAUNCH = (
    "A decode step has few tokens, so its kernels are short, and to launch them one by one takes "
    "the host longer than the device needs for them. Capture the forward of MOST_REQUESTS requests "
    "once, in __init__. Each step then writes its inputs, padded, to where the graph reads them, "
    "and replays it: what else there is to compute belongs into the graph (chapter 04: kata "
    "`replay_another_batch`)."
)
STALE = (
    "A decode step reads its inputs, the tokens that were sampled last, and blocks of the cache. A "
    "graph, if one computes it, reads the addresses that it was captured with, and keeps each "
    "Python number of the capture. So a replay does not see a new tensor, or a width or a list "
    "that has changed since the capture. Copy all that changes into tensors that stay where they "
    "are, with the shapes of the largest step. Rows that only pad a graph write like all other "
    "rows: give them a slot and a block that belong to no request (chapter 04: katas "
    "`copy_to_persistent` and `replay_another_batch`)."
)
ONE_BATCH = (
    "Each call of the driver costs the host time, and a block of a prefix is a small piece in each "
    "layer. List all pieces of a load: addresses of sources, of targets, sizes. Hand them over by "
    "one `current().copy_batch(...)`, which takes numpy arrays of int64, on a stream that is not "
    "the default one. The host waits for none of them (chapter 05)."
)
BESIDE = (
    "The link has an engine of its own, so other requests can compute while a prefix is loaded. "
    "But a stream does one thing after the other, and a host that waits queues nothing. Give loads "
    "a stream of their own, record an event after the copies, and let only a step with this "
    "request wait for it (chapter 05: kata `load_order`)."
)
NOT_THERE = (
    "Streams run beside each other: compute does not wait for a load by itself, and would read "
    "blocks that are not there yet. Before the step's kernels are queued, "
    "`current().current_stream().wait_event(...)` for the loads of its requests. Then the stream "
    "waits; `event.synchronize()` would hold the host, and so all other requests (chapter 05: kata "
    "`load_order`)."
)
OVERTAKES = (
    "The request that had these blocks before may still be computing with them. Let the stream of "
    "the loads wait for the current stream, which is that of compute, before the copies are queued "
    "(chapter 05: kata `load_order`)."
)
ALTOGETHER = (
    "Each wait of the host is a bubble: meanwhile nothing is queued, and the device runs dry. A "
    "step sends its inputs by one copy from pinned memory, and its tokens come back by one copy to "
    "pinned memory. It reads nothing else from the device."
)

# A copy by a wrong address can end the process.
works_on_addresses = pytest.mark.own_process


class Layer(NamedTuple):
    projection: torch.Tensor
    output: torch.Tensor
    gate: torch.Tensor | None = None


class Model(NamedTuple):
    embedding: torch.Tensor
    layers: list[Layer]
    head: torch.Tensor


class Request(NamedTuple):
    slot: int
    blocks: tuple[int, ...]
    num_computed: int = 0
    prompt: tuple[int, ...] = ()
    images: tuple[tuple[int, int], ...] = ()


class Conversation(NamedTuple):
    """A request from start to end; its first blocks are loaded from `host_blocks`, if there are
    any."""

    num_tokens: int
    slot: int
    blocks: tuple[int, ...]
    images: tuple[tuple[int, int], ...] = ()
    host_blocks: tuple[int, ...] = ()

    @property
    def prompt(self):
        """Returns random tokens and a last token 0, since 0 is an id like any other."""
        random = torch.Generator().manual_seed(self.num_tokens)
        tokens = torch.randint(VOCABULARY, (self.num_tokens - 1,), generator=random)
        return (*tokens.tolist(), 0)


CONVERSATIONS = {
    "A": Conversation(19, 0, (7, 3, 12, 17), images=((2, 9), (12, 14))),
    "B": Conversation(13, 1, (5, 9, 1), images=((4, 11),)),
    "C": Conversation(29, 2, (2, 14, 8, 20, 6), images=((3, 8), (18, 25)), host_blocks=(4, 1)),
    # D gets the slot and the blocks of A once A has left.
    "D": Conversation(11, 0, (3, 7, 12)),
    "E": Conversation(21, 1, (10, 15, 4), host_blocks=(0,)),
    "W": Conversation(9, 3, (22, 23)),
}


@cache
def model_of(kinds):
    """Returns a model on the CPU: "r" is a recurrent layer, "a" an attention layer. With these
    weights no other token comes near the sampled one, and each image and each state makes a
    difference."""
    random = torch.Generator().manual_seed(9)
    weights = lambda *shape: torch.randn(shape, generator=random)
    embedding = weights(VOCABULARY, SIZE)
    layers = [
        Layer(
            weights(SIZE, 3 * SIZE) / SIZE**0.5,
            weights(SIZE, SIZE) / SIZE**0.5,
            weights(SIZE) / SIZE**0.5 if kind == "r" else None,
        )
        for kind in kinds
    ]
    return Model(embedding, layers, weights(SIZE, VOCABULARY))


def plain_forward(model, tokens, images):
    """Returns the next token and the cache's contents [blocks, layers, 2 * BLOCK, SIZE]. Computes
    all tokens of a request at once, and the states one after the other."""
    hidden, position = model.embedding[list(tokens)], torch.arange(len(tokens))
    visible = position <= position[:, None]
    for first, last in images:
        inside = (first <= position) & (position <= last)
        visible |= inside & inside[:, None]
    blocks = torch.zeros(-(-len(tokens) // BLOCK), len(model.layers), 2 * BLOCK, SIZE)
    for number, layer in enumerate(model.layers):
        normed = rms_norm(hidden, (SIZE,))
        query, key, value = (normed @ layer.projection).chunk(3, 1)
        if layer.gate is None:
            scores = (query @ key.T / SIZE**0.5).masked_fill(~visible, float("-inf"))
            mixed = scores.softmax(1) @ value
            for i in range(len(tokens)):
                blocks[i // BLOCK, number, i % BLOCK] = key[i]
                blocks[i // BLOCK, number, BLOCK + i % BLOCK] = value[i]
        else:
            keeps = (normed @ layer.gate).sigmoid() ** (1 / BLOCK)
            state, mixed = torch.zeros(SIZE, SIZE), torch.zeros(len(tokens), SIZE)
            for i in range(len(tokens)):
                state = keeps[i] * state + key[i].outer(value[i])
                mixed[i] = query[i] @ state
                blocks[i // BLOCK, number] = state
        hidden = hidden + rms_norm(mixed, (SIZE,)) @ layer.output
    return int((rms_norm(hidden[-1], (SIZE,)) @ model.head).argmax()), blocks


@cache
def right_token(kinds, name, number):
    """Returns the token that the request samples after `number` sampled tokens."""
    asked = CONVERSATIONS[name]
    sampled = [right_token(kinds, name, i) for i in range(number)]
    return plain_forward(model_of(kinds), (*asked.prompt, *sampled), asked.images)[0]


class Queued(NamedTuple):
    """A step that the engine queued: (name, number of tokens sampled before) of each request."""

    requests: list[tuple[str, int]]
    tokens: object

    @property
    def is_decode(self):
        return all(sampled for _, sampled in self.requests)


class Server:
    """The scheduler with the kata's engine, whose cache is full of other requests' leftovers."""

    def __init__(self, kata, accelerator, kinds="arar"):
        self.accelerator, self.kinds = accelerator, kinds
        on_cpu, device = model_of(kinds), accelerator.device
        layers = [
            Layer(*(weights if weights is None else weights.to(device) for weights in layer))
            for layer in on_cpu.layers
        ]
        model = Model(on_cpu.embedding.to(device), layers, on_cpu.head.to(device))
        cache = torch.full((len(kinds), NUM_BLOCKS, 2 * BLOCK, SIZE), 3.0, device=device)
        host_cache = torch.zeros(NUM_HOST_BLOCKS, len(kinds), 2 * BLOCK, SIZE)
        if accelerator.pin_memory:
            host_cache = host_cache.pin_memory()
        for asked in CONVERSATIONS.values():
            prefix = asked.prompt[: len(asked.host_blocks) * BLOCK]
            if prefix:
                _, blocks = plain_forward(on_cpu, prefix, asked.images)
                host_cache[list(asked.host_blocks)] = blocks
        self.engine, self.num_sampled = kata.Engine(model, cache, host_cache), Counter()
        # Work that is done only the first time must not be recorded.
        self.run("W W")
        accelerator.synchronize()

    def run(self, plan):
        """Runs the plan and returns its steps: "AB" is a step of two requests, "+C" loads the
        prefix of C."""
        steps = [self.load(word[1]) if word[0] == "+" else self.step(word) for word in plan.split()]
        return [step for step in steps if step]

    def load(self, name):
        self.engine.load(self.request(name), list(CONVERSATIONS[name].host_blocks))

    def step(self, names):
        queued = [(name, self.num_sampled[name]) for name in names]
        tokens = self.engine.step([self.request(name) for name in names])
        self.num_sampled.update(names)
        return Queued(queued, tokens)

    def request(self, name):
        """Returns the request as the scheduler sends it: with its prompt in its first step only."""
        asked, sampled = CONVERSATIONS[name], self.num_sampled[name]
        end = asked.num_tokens + sampled
        blocks = asked.blocks[: -(-end // BLOCK)]
        if sampled:
            return Request(asked.slot, blocks, end - 1, images=asked.images)
        computed = len(asked.host_blocks) * BLOCK
        return Request(asked.slot, blocks, computed, asked.prompt[computed:], asked.images)

    def expect_right(self, steps):
        """Checks that `read` returns the tokens of the plain model, step by step."""
        for place, step in enumerate(steps):
            right = [right_token(self.kinds, *request) for request in step.requests]
            words = [f"{name} decodes" if i else f"prompt of {name}" for name, i in step.requests]
            value = f"what `read` gave for step {place}, of {len(steps)} ({', '.join(words)}),"
            likely = STALE if step.is_decode else WRONG_TOKENS
            expect_equal(step.tokens.read(), right, value=value, likely=likely)

    def keep_busy(self):
        """Queues a kernel that lasts until a real host has queued everything; the modelled host
        needs less."""
        self.accelerator.sleep(10.0 if self.accelerator.modelled else 50.0)


def record(server, plan):
    """Records the plan, queued after a kernel of 50 microseconds."""
    server.accelerator.synchronize()
    with debubble.record(server.accelerator) as timeline:
        server.accelerator.sleep(0.05)
        server.run(plan)
    return timeline


def is_upload(event):
    return (event.copy_kind or "").startswith("h2d")


def is_download(event):
    return event.copy_kind == "d2h"


def is_question(event):
    """Returns True for every upload, download and wait."""
    return event.kind == "sync" or is_upload(event) or is_download(event)


def kernels_of(timeline):
    return [e for e in timeline.events if e.kind == "kernel" and e.name != "sleep"]


def expect_nothing_added(kata, accelerator, kind, counted, what, why):
    """Checks that three layers of this kind add none of these events to a step without layers."""
    without, with_layers = (
        record(Server(kata, accelerator, layers), "AB") for layers in ("", 3 * kind)
    )
    line = lambda event: (event.source, event.kind, event.copy_kind)
    known = Counter(line(event) for event in without.events if counted(event))
    added = []
    for event in with_layers.events:
        if counted(event) and known[line(event)] == 0:
            added.append(event)
        elif counted(event):
            known[line(event)] -= 1
    layers = "recurrent layers" if kind == "r" else "layers with attention"
    expect(with_layers).that(
        not added,
        expected=f"{layers} to add no {what} to a step with 2 prompts",
        did=f"makes {len(added)} more with 3 of them than without any layers",
        events=added,
        why=why,
    )


@pytest.mark.parametrize("plan", ["A A A A A A A", "AB AB BA", "ABW W AB BWA B", "A A DB DB"])
def test_the_tokens_are_those_of_the_plain_model(kata, accelerator, plan):
    server, steps = run_one_by_one(kata, accelerator, plan)
    server.expect_right(steps)


def run_one_by_one(kata, accelerator, plan):
    """Returns (server, steps). Each step begins once the step before it is done."""
    server, steps = Server(kata, accelerator), []
    for word in plan.split():
        steps += server.run(word)
        accelerator.synchronize()
    return server, steps


def test_chapter_01_images_are_sent_once_a_step(kata, accelerator):
    expect_nothing_added(kata, accelerator, "a", is_upload, "uploads", SPANS)


def test_chapter_02_the_inputs_are_sent_together(kata, accelerator):
    timeline = record(Server(kata, accelerator, ""), "AB")
    uploads = [event for event in timeline.events if is_upload(event)]
    expect(timeline).that(
        len(uploads) <= 1,
        expected="1 upload in a step with 2 prompts, of a model without layers",
        did=f"made {len(uploads)} uploads",
        events=uploads,
        why=INPUTS,
    )
    if accelerator.pin_memory:
        expect(timeline).counts(h2d_pageable=0, why=INPUTS)


def test_chapter_02_nobody_waits_for_the_sampled_tokens(kata, accelerator):
    server = Server(kata, accelerator, "")
    server.run("AB")
    timeline = record(server, "AB")
    uploads = {event.source for event in timeline.events if is_upload(event)}
    waits = [e for e in timeline.events if e.kind == "sync" and e.source not in uploads]
    expect(timeline).that(
        not waits,
        expected="a step to be queued before anybody waits for its tokens",
        did="waits for the device" + (f" {len(waits)} times" if len(waits) > 1 else ""),
        events=waits,
        why=SAMPLED,
    )
    expect(timeline).counts(d2h=1, why=SAMPLED)
    expect_pinned_downloads(accelerator, timeline)


def expect_pinned_downloads(accelerator, timeline):
    downloads = [event for event in timeline.events if is_download(event)]
    pageable = [event for event in downloads if event.pageable]
    expect(timeline).that(
        not (pageable and accelerator.pin_memory),
        expected="tokens to come back to pinned memory",
        did=f"brings them to pageable memory in {len(pageable)} of {len(downloads)} downloads",
        events=pageable,
        why=SAMPLED,
    )


def test_chapter_02_reading_waits_for_its_own_step_alone(kata, accelerator):
    _, alone = run_one_by_one(kata, accelerator, "AB AB")
    server = Server(kata, accelerator)
    server.run("AB")
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        server.keep_busy()
        step = server.step("AB")
        with closed_gate(accelerator, modelled_ms=10.0) as gate:
            tokens = step.tokens.read()
            still_busy = gate.closed
    expect(timeline).no_hazards(why=READ_LATE)
    value = "what `read` gives while the next step is still computed"
    expect_equal(tokens, alone[1].tokens.read(), value=value, likely=READ_LATE)
    waits = [event for event in timeline.events if event.kind == "sync"]
    expect(timeline).that(
        still_busy,
        expected="`read` to be over before the work that was queued after its step",
        did="waited until the device had done everything",
        events=sorted(waits, key=lambda wait: -wait.duration)[:1],
        why=READ_LATE,
    )


def test_chapter_02_steps_in_flight_do_not_disturb_each_other(kata, accelerator):
    plan = "AB BA AB BA AB BA"
    _, alone = run_one_by_one(kata, accelerator, f"AB {plan}")
    server = Server(kata, accelerator)
    server.run("AB")
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        server.keep_busy()
        tokens = [step.tokens.read() for step in server.run(plan)]
    expect(timeline).no_hazards(why=IN_FLIGHT)
    for place, step in enumerate(alone[1:]):
        value = f"what `read` gives for step {place}, of 6 queued while a kernel was still running,"
        expect_equal(tokens[place], step.tokens.read(), value=value, likely=IN_FLIGHT)


def test_chapter_03_recurrent_layers_ask_for_nothing(kata, accelerator):
    expect_nothing_added(kata, accelerator, "r", is_question, "copies and waits", TABLES)


def test_chapter_04_attention_asks_for_nothing(kata, accelerator):
    expect_nothing_added(kata, accelerator, "a", is_download, "downloads", PAGES)


def test_chapter_04_a_decode_step_is_one_launch(kata, accelerator):
    server = Server(kata, accelerator)
    server.run("AB AB")
    timeline = record(server, "AB")
    graphs = [i for i, event in enumerate(timeline.events) if event.kind == "graph_launch"]
    beside = [kernel for kernel in kernels_of(timeline) if kernel.launched_by not in graphs]
    expect(timeline).that(
        len(graphs) == 1 and not beside,
        expected="a decode step to be 1 graph launch, and no kernel by itself",
        did=f"made {listed(graphs, 'graph launch', 'es')} and launched "
        f"{listed(beside, 'kernel', 's')} one by one",
        events=beside,
        why=ONE_LAUNCH,
    )


def listed(things, word, plural):
    return f"{len(things) or 'no'} {word}{plural if len(things) != 1 else ''}"


@works_on_addresses
def test_chapter_05_a_prefix_is_loaded_by_one_batch(kata, accelerator):
    server = Server(kata, accelerator)
    timeline = record(server, "+C")
    expect(timeline).counts(host_syncs=0, why=ONE_BATCH)
    uploads = [event for event in timeline.events if is_upload(event)]
    expect(timeline).that(
        len(uploads) == 1 or not accelerator.has_copy_batch,
        expected="a load of 2 blocks, each in 4 layers, to be 1 batch of copies",
        did=f"made {len(uploads) or 'no'} copies",
        events=uploads,
        why=ONE_BATCH,
    )


@pytest.fixture
def slow_link(accelerator, monkeypatch):
    """Delays copies by address, so that code that relies on luck fails."""

    def be_late(*args, **options):
        accelerator.sleep(1.0 if accelerator.modelled else 20.0)
        return mock.DEFAULT

    for name in ("copy_batch", "copy_bytes"):
        copy = mock.Mock(wraps=getattr(accelerator, name), side_effect=be_late)
        monkeypatch.setattr(accelerator, name, copy)


def record_load(kata, accelerator, plan):
    """Returns (server, steps, timeline, the copies of the load)."""
    server = Server(kata, accelerator)
    inputs = {event.source for event in record(server, "AB AB").events if is_upload(event)}
    with debubble.record(accelerator) as timeline:
        steps = server.run(plan)
    uploads = [event for event in timeline.events if is_upload(event)]
    loads = [event for event in uploads if event.source not in inputs] or uploads
    return server, steps, timeline, loads


@works_on_addresses
def test_chapter_05_others_compute_beside_a_load(kata, accelerator, slow_link):
    _, _, timeline, loads = record_load(kata, accelerator, "+C AB")
    first = min(kernels_of(timeline), key=lambda kernel: kernel.start)
    expect(timeline).that(
        first.start < max(load.end for load in loads),
        expected="a step of other requests to start before the copies of a load are done",
        did="lets it start only then",
        events=[*loads, first],
        quoted=loads,
        why=BESIDE,
    )


@works_on_addresses
def test_chapter_05_a_step_waits_for_the_blocks_that_it_reads(kata, accelerator, slow_link):
    server, steps, timeline, loads = record_load(kata, accelerator, "+C C")
    first = min(kernels_of(timeline), key=lambda kernel: kernel.start)
    expect(timeline).that(
        first.start > max(load.start for load in loads),
        expected="a step with a request to start after the copies of its load",
        did="lets it start before them",
        events=[first, *loads],
        why=NOT_THERE,
    )
    of_loads = {load.source for load in loads}
    known = {event.source for event in record(server, "AB AB").events} | of_loads
    waits = [e for e in timeline.events if e.kind == "sync" and e.source not in known]
    expect(timeline).that(
        not waits,
        expected="the stream of a step to wait for the copies of its load",
        did="lets the host wait for them",
        events=waits,
        why=NOT_THERE,
    )
    server.expect_right(steps)


@works_on_addresses
def test_chapter_05_a_load_waits_for_the_last_owner_of_its_blocks(kata, accelerator):
    server = Server(kata, accelerator)
    with debubble.record(accelerator) as timeline:
        server.keep_busy()
        server.run("+C")
    busy = next(event for event in timeline.events if event.kind == "kernel")
    loads = [event for event in timeline.events if is_upload(event)]
    expect(timeline).that(
        all(load.end > busy.end for load in loads),
        expected="a load to run after all that was queued before it",
        did="lets it overtake a kernel that may still use these blocks",
        events=[busy, *loads],
        quoted=loads,
        why=OVERTAKES,
    )


@works_on_addresses
def test_altogether_the_host_never_waits(kata, accelerator):
    server = Server(kata, accelerator)
    plan = "A AB +C AB CAB ABC CB DBC WDBC CDWB BW"
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        steps = server.run(plan)
    expect(timeline).counts(host_syncs=0, d2h=len(steps), why=ALTOGETHER)
    if accelerator.pin_memory:
        expect(timeline).counts(h2d_pageable=0, why=ALTOGETHER)
    expect_pinned_downloads(accelerator, timeline)
    uploads = [event for event in timeline.events if is_upload(event)]
    most = len(plan.split()) if accelerator.has_copy_batch else len(uploads)
    expect(timeline).that(
        len(uploads) <= most,
        expected=f"1 upload for each of {len(steps)} steps, and 1 for a load",
        did=f"made {len(uploads)} uploads",
        events=uploads,
        why=ALTOGETHER,
    )
    decodes = [step for step in steps if step.is_decode]
    expect(timeline).counts(graph_launches=len(decodes), why=ONE_LAUNCH)
    expect(timeline).no_hazards(why=ALTOGETHER)
    accelerator.synchronize()
    server.expect_right(steps)


PLAN = ("AB", "A", "BA", "W", "ABW", "A", "DB", "D")


def common_steps(accelerator):
    server, steps = NamesOfSteps(W=2), []
    for number, names in enumerate(PLAN):
        tokens = [right_token("arar", *request) for request in server.step(names)]
        steps.append(Step(f"step {number}, of the requests {names},", (names,), tokens))
    return steps


class NamesOfSteps(Counter):
    """The number of tokens that each request has sampled so far, as a Server counts them."""

    def step(self, names):
        queued = [(name, self[name]) for name in names]
        self.update(names)
        return queued


def serving(kata, accelerator):
    server = Server(kata, accelerator)
    return lambda names: server.step(names).tokens.read()


COMMON = Common(make=serving, steps=common_steps, in_order=True, stale=STALE)


@pytest.mark.parametrize("plan", ["A A A", "AB BA W", "+C C AC C"])
@works_on_addresses
def test_the_cache_has_the_keys_and_states_of_the_plain_model(kata, accelerator, plan):
    server, _ = run_one_by_one(kata, accelerator, plan)
    cache = server.engine.cache.cpu()
    for name in sorted({*plan} & {*CONVERSATIONS}):
        asked, count = CONVERSATIONS[name], server.num_sampled[name]
        sampled = [right_token("arar", name, number) for number in range(count - 1)]
        tokens = (*asked.prompt, *sampled)
        _, right = plain_forward(model_of("arar"), tokens, asked.images)
        for place, block in enumerate(asked.blocks[: len(right)]):
            used = min(len(tokens) - place * BLOCK, BLOCK)
            for layer, kind in enumerate("arar"):
                rows = [*range(used), *range(BLOCK, BLOCK + used)] if kind == "a" else slice(None)
                what = f"keys and values of {used} tokens" if kind == "a" else "state"
                value = f"the {what} in block {place} of request {name}, layer {layer}"
                expect_equal(
                    cache[layer, block][rows],
                    right[place, layer][rows],
                    value=value,
                    likely=OF_THE_CACHE,
                    tolerance=2e-3,
                )


@works_on_addresses
def test_two_loads_may_come_before_a_step(kata, accelerator, slow_link):
    server = Server(kata, accelerator)
    with debubble.record(accelerator) as timeline:
        server.run("+E +C")
        steps = server.run("E C CE")
    expect(timeline).no_hazards(why=NOT_THERE)
    server.expect_right(steps)


OF_THE_CACHE = (
    "The sampled tokens alone may be right although a key or a state is wrong: a later token, or "
    "another request with the same prefix, reads them. Does each token see both of its images, and "
    "does each layer write what it computed to the request's own blocks?"
)


@works_on_addresses
def test_a_load_and_its_step_go_by_the_current_stream(kata, accelerator, slow_link):
    """The engine was made while another stream was current."""
    server, stream = Server(kata, accelerator), accelerator.stream()
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline, stream:
        server.keep_busy()
        steps = server.run("+C C C")
    busy = next(event for event in timeline.events if event.kind == "kernel")
    loads = [event for event in timeline.events if is_upload(event)][:1]
    expect(timeline).that(
        all(load.end > busy.end for load in loads),
        expected="a load to run after all that was queued before it on the current stream",
        did="lets it overtake a kernel that may still use these blocks",
        events=[busy, *loads],
        quoted=loads,
        why=OF_THE_CALL,
    )
    expect(timeline).no_hazards(why=OF_THE_CALL)
    server.expect_right(steps)


OF_THE_CALL = (
    "An engine is made once, and its steps may run on another stream. Ask for "
    "`current().current_stream()` in each call, and not in `__init__`: a load waits for the stream "
    "of its call, and the stream of a step waits for the load."
)
