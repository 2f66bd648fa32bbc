"""Faults that other engines shipped, each by the number of its report, which this engine must not
have."""

from collections import Counter
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
import torch

import debubble
from solutions.common.packed_upload import upload_plans
from solutions.engine import SamplingParams
from solutions.engine.model.layers import AttentionLayer
from solutions.engine.requests.new_request import new_request
from solutions.engine.requests.step_batch import FROM_HOST, NO_SLOT
from solutions.engine.run.backends import SpansBackend
from solutions.flex_graph import FlexAttentionMetadataBuilder
from solutions.gdn import GDNAttentionMetadataBuilder, metadata
from solutions.offload.transfers import NUM_STREAMS, TransferQueue

from .setting import ALL, Setting, serve, small, tokens_of


@pytest.fixture(scope="module")
def offloading(accelerator):
    """Returns a Setting of attention alone, whose prefixes are stored in host memory."""
    return Setting.of(small("flex", "spans", num_cpu_blocks=8), accelerator)


def decode_from_host_memory(accelerator, setting, config=None):
    """Serves a prompt whose blocks are all in host memory, so that its first step is a decode, and
    whose load begins late. Returns (timeline, output, the right tokens)."""
    config = config or setting.config
    engine = setting.engine(ALL, config)
    asked = setting.asked(2 * config.limits.block_size + 1, max_tokens=3)
    serve(engine, [asked])
    engine.reset_prefix_cache()
    with debubble.record(accelerator) as timeline:
        for _ in range(NUM_STREAMS):
            with next(engine.offloader.load._streams):
                accelerator.sleep(1.0)
        (output,) = serve(engine, [asked])
    assert output.num_cached == 2 * config.limits.block_size
    return timeline, output.token_ids, setting.answer(asked)


def reads_after_the_load(timeline):
    """Returns True if the first attention of a timeline runs after the load of its prefix."""
    on_device = [event for event in timeline.events if event.on_device]
    load = next(e for e in on_device if e.lane != "stream 0" and "sleep" not in e.name)
    attention = next(e for e in on_device if "flex" in e.name or "prefix_attention" in e.name)
    return load.end <= attention.start


def test_a_replayed_graph_waits_for_the_load_of_its_prefix(accelerator, offloading):
    """The first step of a prompt that is wholly in host memory is a graph's replay, which runs no
    Python of a layer (vLLM #29608)."""
    timeline, tokens, right = decode_from_host_memory(accelerator, offloading)
    assert timeline.counts()["graph_launches"] == 3
    assert timeline.hazards == [], "attention reads a prefix that is still being loaded"
    assert reads_after_the_load(timeline)
    assert tokens == right


@pytest.mark.sim
@pytest.mark.parametrize("sizes", [(), None], ids=["eager", "graphs"])
def test_a_wait_in_a_layer_s_python_is_no_wait_for_a_graph(
    accelerator, offloading, monkeypatch, sizes
):
    """The control of #29608: loads are reported at once, and each layer waits for them when its
    Python runs. Eager steps read after the load, and replays before it."""
    waiting = []
    retire, mix = TransferQueue._retire, AttentionLayer.mix

    def at_once(queue):
        retire(queue)
        for job_id, transfer in [*queue._in_flight.items()]:
            queue._finished[job_id] = transfer.result()
            waiting.append(queue._in_flight.pop(job_id).end_event)

    def waits(layer, *arguments):
        while waiting:
            accelerator.current_stream().wait_event(waiting.pop())
        return mix(layer, *arguments)

    monkeypatch.setattr(TransferQueue, "_retire", at_once)
    monkeypatch.setattr(TransferQueue, "wait", lambda queue, job_ids: None)
    monkeypatch.setattr(AttentionLayer, "mix", waits)
    config = replace(offloading.config, capture_sizes=sizes)
    timeline, *_ = decode_from_host_memory(accelerator, offloading, config)
    assert reads_after_the_load(timeline) == (sizes == ())


def test_metadata_is_built_once_for_all_layers_that_share_it(accelerator, monkeypatch):
    """A builder per layer, or per group of layers, cost more than half of the output at batch 1
    (vLLM #52297)."""
    pattern = ("gdn", "flex", "flex", "flex", "spans", "spans", "gdn")
    windows = {"windows": (None, 8, 8, None, None, None, None)}
    setting = Setting.of(small(*pattern, model=windows, capture_sizes=()), accelerator)
    engine, built = setting.engine(), []
    for builder in (FlexAttentionMetadataBuilder, GDNAttentionMetadataBuilder, SpansBackend):

        def noting(self, *arguments, build=builder.build):
            built.append(type(self).__name__)
            return build(self, *arguments)

        monkeypatch.setattr(builder, "build", noting)
    serve(engine, [setting.asked(10, max_tokens=1)])
    assert len(engine.model.masks) == 2
    right = {"FlexAttentionMetadataBuilder": 2, "GDNAttentionMetadataBuilder": 1, "SpansBackend": 1}
    assert Counter(built) == right, "builds in a step of two masks, one kind of state, one of spans"


def changed(value):
    return lambda numbers: np.full_like(numbers, value)


OTHERS = {
    "token_ids": lambda ids: (ids + 1) % 64,
    "positions": lambda positions: positions // 2,
    "token_sources": lambda sources: np.where(sources == FROM_HOST, 1, FROM_HOST),
    "slot_mapping": changed(-1),
    "query_start_loc": lambda starts: np.where(starts == starts[-1], starts // 2, starts),
    "seq_lens": lambda lengths: lengths // 2,
    "slots": changed(NO_SLOT),
    "logits_rows": lambda rows: rows // 2,
    "sampling_slots": lambda slots: slots[::-1],
    "wishes": changed(0),
    "block_table": lambda table: table[::-1],
    "prefills has_initial_state": np.logical_not,
    "prefills query_start_loc": lambda starts: starts // 2,
    "prefills chunk_indices": changed(-1),
    "prefills chunk_offsets": np.flip,
    "convolution sequence": changed(-1),
    "convolution offset": lambda offsets: offsets + 1,
}
"""A change of each array of a step's uploads that stays within bounds. The arrays of a prompt's
chunks have the name of their plan before their own."""


@pytest.mark.deep
@pytest.mark.sim
def test_each_array_that_is_uploaded_is_read(accelerator, hybrid, monkeypatch):
    """Other numbers in any array give another result, so each upload is read
    (vllm-ascend #16887)."""
    asked = [
        replace(each, sampling=replace(each.sampling, temperature=1.0, seed=7))
        for each in (hybrid.asked(20, n, [(2, 9)], max_tokens=3) for n in (1, 2))
    ]
    uploaded = set()

    def result(changed_name=None):
        """Returns the answers, and all keys, values and states, if this array is changed."""

        def sent(name, values):
            uploaded.add(name)
            return OTHERS[name](values).astype(values.dtype) if name == changed_name else values

        def send_plans(plans, *rest):
            named = lambda plan, arrays: {n: sent(f"{plan} {n}", arrays[n]) for n in arrays}
            return upload_plans({plan: named(plan, plans[plan]) for plan in plans}, *rest)

        monkeypatch.setattr(metadata, "upload_plans", send_plans)
        engine = hybrid.engine(ALL, replace(hybrid.config, num_cpu_blocks=0, capture_sizes=(2,)))
        arrays_of = engine.runner.inputs.arrays_of
        engine.runner.inputs.arrays_of = lambda batch: {
            name: (sent(name, values), rest) for name, (values, rest) in arrays_of(batch).items()
        }
        answers = tokens_of(serve(engine, asked))
        caches = (layer.cache for layer in engine.model.layers.values() if layer.kind != "gdn")
        memory = chain.from_iterable((cache.key, cache.value) for cache in caches)
        states = engine.model.states
        return answers, [tensor.cpu() for tensor in (*memory, states.conv, states.ssm)]

    right, memory = result()
    assert uploaded <= {*OTHERS}, "a change of these arrays must be in OTHERS"
    unread = []
    for name in sorted(uploaded):
        try:
            answers, other = result(name)
        except RuntimeError:
            continue  # A kernel has noticed.
        if answers == right and all(map(torch.equal, memory, other)):
            unread.append(name)
    assert unread == [], "no kernel reads these uploads"


@pytest.mark.parametrize(
    "changes",
    [{"num_kv_heads": 2}, {"head_size": 32}, {"num_layers": 2}, {"dtype": torch.bfloat16}],
    ids=lambda changes: next(iter(changes)),
)
def test_a_cached_block_is_named_by_its_layout_and_dtype(changes):
    """A cache that outlives an engine would hand its bytes to another layout or dtype otherwise
    (vLLM #55904)."""
    name = lambda config: new_request("a", range(32), (), SamplingParams(), config).hashes[-1]
    assert name(small("flex")) == name(small("flex"))
    assert name(small("flex")) != name(small("flex", model=changes)), "two caches share a block"


def test_two_heads_of_keys_are_not_taken_for_keys_and_values(accelerator):
    """A cache of shape [blocks, 16, 2, size] can be read in two ways (LMCache #4467): a prefix that
    comes back from host memory is read as it was written."""
    heads = {"num_heads": 4, "num_kv_heads": 2}
    setting = Setting.of(small("flex", "spans", model=heads, num_cpu_blocks=8), accelerator)
    _, tokens, right = decode_from_host_memory(accelerator, setting)
    assert tokens == right, "the loaded prefix is not the stored one"


def test_the_default_host_memory_is_as_large_as_asked(accelerator):
    """PyTorch's pinned memory is rounded up to a power of two, so that 6 GiB took 8 (vLLM
    #50094)."""
    config = small("flex")
    page = 2 * config.limits.block_size * config.model.num_kv_heads * config.model.head_size * 4
    asked = 6 << 20
    sized = replace(config, num_cpu_blocks=asked // page)
    with debubble.record(accelerator, also=["alloc"]) as timeline:
        engine = Setting.of(sized, accelerator).engine()
    pinned = [event.bytes for event in timeline.events if event.name == "cudaHostAlloc"]
    assert sum(pinned) < 0.1 * asked, "PyTorch pins the blocks, and rounds their bytes up"
    host = [pair.cpu for pair in engine.offloader.load.groups[0].tensors]
    assert sum(tensor.nbytes for tensor in host) == asked
