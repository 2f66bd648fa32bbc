"""Tests of the kata `custom_mask`."""

from typing import NamedTuple

import pytest
import torch
from torch.nn.attention.flex_attention import BlockMask

import debubble
from debubble.accelerator import flex_attention
from debubble.exercises import (
    Common,
    Diagnosis,
    KataFailure,
    Step,
    expect,
    expect_equal,
)

PAGE, Q_BLOCK = 16, 16  # as in the kata
NUM_PAGES, MOST_TOKENS, MOST_REQUESTS = 13, 48, 4
PADDING = (0, -1)
ITS_OWN = (
    "A token sees keys of its own request: up to itself, no further back than the window of this "
    "layer, and only keys that `logical_mask_mod` allows. The given `mask_mod_of` and "
    "`needed_pages` apply these rules for a mask."
)
ANOTHER_LAYERS = (
    "This is what layer `{}` would see on these pages. A mask_mod that looks its window up when it "
    "is called finds the window that was written last: each mask needs a mask_mod of its own, with "
    "its own numbers."
)
TOO_FEW = (
    "The page is not in the list of its group. A group has tokens of several requests, and the "
    "first request is not always the one that looks back furthest: a page is needed if any of the "
    "group's tokens needs it."
)
NOT_NEEDED = (
    "The mask would hide these keys, so the result is right. But the kernel loads each page that "
    "is listed, and a long request has hundreds of them that no window reaches any more. List only "
    "the pages from where the windows begin."
)
MISSING = (
    "A page that is not listed is not read: the tokens of the group see nothing of it. Does "
    "another token of the group need this page, a token of another request?"
)
BEHIND = "The columns after the pages that count are -1, all of them."
ASKED = (
    "All that the lists follow from is on the device, and they are needed there. A result of a "
    "size that only the device knows makes the host wait: `nonzero`, and an index that is a mask."
)
SENT = (
    "`torch.tensor(20, device=...)` makes a tensor on the host and sends it, each time that it is "
    "called: in a mask, for each layer of each step, and never in a graph. Use the number itself, "
    "which a kernel gets as an argument."
)
IN_FORWARD = (
    "The work that a layer's forward queues is queued again for each layer, and captured with it. "
    "Lists that are ready before the first layer cost it nothing: slices, and no kernel."
)
SHARED = (
    "24 layers with 2 different masks need 2 lists. Make one for each mask, not for each layer."
)
FOR_FLEX = (
    "The lists and the mask say the right thing when they are read one by one. Are they what "
    "flex_attention needs: int32, a row for each group, ascending, and -1 after the pages?"
)
STALE = (
    "The model was captured, and `build` was not. So a replay reads the addresses of the captured "
    "lists: `build` has to write there in each step, and not make new tensors."
)


class LayerMask(NamedTuple):
    sliding_window: int | None = None
    logical_mask_mod: object = None


class StepTensors(NamedTuple):
    request: torch.Tensor
    position: torch.Tensor
    physical_to_logical: torch.Tensor


class Batch(NamedTuple):
    """A step's requests. `tokens` are (request, position); `pages` has each request's pages, in
    order."""

    tokens: list[tuple[int, int]]
    pages: list[list[int]]


def same_document(b, h, query, key):
    """Returns True within a document: the first has one token, and all later ones have 24."""
    return (query + 23) // 24 == (key + 23) // 24


MASKS = {
    "full": LayerMask(),
    "window of 20": LayerMask(20),
    "documents": LayerMask(None, same_document),
    "documents, window of 10": LayerMask(10, same_document),
    "window of 40": LayerMask(40),
}
BATCHES = {
    "a prompt": Batch([(0, i) for i in range(32)], [[5, 2]]),
    "a prompt, continued": Batch([(1, i) for i in range(45, 77)], [[9], [3, 12, 7, 1, 10]]),
    "a decode and a prompt": Batch(
        [(0, 75), *((1, i) for i in range(3, 34))], [[6, 11, 4, 8, 2], [9, 1, 5]]
    ),
    "decodes, padded": Batch(
        [(0, 70), (1, 5), (2, 35), (3, 16), *[PADDING] * 28],
        [[2, 3, 4, 5, 6], [12], [7, 1, 8], [11, 9]],
    ),
}
BATCH = BATCHES["a decode and a prompt"]


def tensors_of(accelerator):
    """Returns the tensors before the first step: nothing but padding."""
    on_device = {"dtype": torch.int64, "device": accelerator.device}
    return StepTensors(
        torch.zeros(MOST_TOKENS, **on_device),
        torch.full((MOST_TOKENS,), -1, **on_device),
        torch.full((MOST_REQUESTS, NUM_PAGES), -1, **on_device),
    )


def write(batch, step):
    """Writes the batch's values to the tensors that all steps share."""
    padded = torch.tensor(batch.tokens + [PADDING] * (MOST_TOKENS - len(batch.tokens)))
    step.request.copy_(padded[:, 0])
    step.position.copy_(padded[:, 1])
    mapping = torch.full((MOST_REQUESTS, NUM_PAGES), -1)
    for request, pages in enumerate(batch.pages):
        mapping[request, pages] = torch.arange(len(pages))
    step.physical_to_logical.copy_(mapping)


def built(kata, accelerator, batch, masks=MASKS):
    step = tensors_of(accelerator)
    layers = kata.LayerMasks(masks, step)
    write(batch, step)
    layers.build(len(batch.tokens))
    return step, layers


def seen_by_tokens(lists, num_tokens):
    """Returns [tokens, slots] bool on the device: True for slots on the group's pages that the mask
    allows."""
    device = lists.kv_indices.device
    columns = torch.arange(NUM_PAGES + 1, device=device)
    pages = lists.kv_indices.clamp(0, NUM_PAGES)
    counted = torch.where(columns < lists.kv_num_blocks[:, None], pages, NUM_PAGES)
    listed = torch.zeros(len(pages), NUM_PAGES + 1, dtype=torch.bool, device=device)
    listed.scatter_(1, counted.long(), True)
    zero, token, slot = indices(num_tokens, device)
    return lists.mask_mod(zero, zero, token, slot) & listed[token // Q_BLOCK, slot // PAGE]


def indices(num_tokens, device):
    zero = torch.zeros((), dtype=torch.int64, device=device)
    token = torch.arange(num_tokens, device=device)[:, None]
    return zero, token, torch.arange(NUM_PAGES * PAGE, device=device)[None]


def right_positions(mask, position):
    """Returns the positions of its own request that a token sees."""
    first = 0 if mask.sliding_window is None else max(position - mask.sliding_window + 1, 0)
    also = mask.logical_mask_mod or (lambda *_: True)
    return [key for key in range(first, position + 1) if also(0, 0, position, key)]


def right_slots(mask, batch, token):
    request, position = batch.tokens[token]
    keys = right_positions(mask, position)
    return [batch.pages[request][key // PAGE] * PAGE + key % PAGE for key in keys]


def right_pages(mask, batch, group):
    tokens = range(group * Q_BLOCK, (group + 1) * Q_BLOCK)
    window = LayerMask(mask.sliding_window)  # pages are not chosen by a logical mask
    slots = [slot for token in tokens for slot in right_slots(window, batch, token)]
    return sorted({slot // PAGE for slot in slots})


def words(slots, batch, request):
    """Returns the slots in words: "positions 4 to 9" for the request's own, and "2 keys of
    others"."""
    own = {page: place for place, page in enumerate(batch.pages[request])}
    positions = sorted(own[s // PAGE] * PAGE + s % PAGE for s in slots if s // PAGE in own)
    starts = [p for p in positions if p - 1 not in positions]
    ends = [p for p in positions if p + 1 not in positions]
    parts = [f"{a} to {b}" if a < b else f"{a}" for a, b in zip(starts, ends, strict=True)]
    others = len(slots) - len(positions)
    some = "position " if len(positions) == 1 else "positions "
    found = [some + ", ".join(parts)] if parts else []
    found += [f"{others} keys of others"] if others else []
    return " and ".join(found) or "nothing"


def expect_seen(seen, layer, batch, where="", likely=""):
    """Checks `seen`, the result of `seen_by_tokens` for this layer."""
    for token, row in enumerate(seen.cpu()):
        slots, right = row.nonzero().flatten().tolist(), right_slots(MASKS[layer], batch, token)
        if slots == sorted(right):
            continue
        request, position = batch.tokens[token]
        name = f"token {token}, " + (
            f"position {position} of request {request}," if position >= 0 else "which is padding,"
        )
        raise KataFailure(
            Diagnosis(
                expected=f"{name} to see {words(right, batch, request)} in layer `{layer}`{where}",
                did=f"lets it see {words(slots, batch, request)}",
                why=likely or likely_cause(slots, right, layer, batch, token),
            )
        )


def likely_cause(slots, right, layer, batch, token):
    for other, mask in MASKS.items():
        pages = right_pages(MASKS[layer], batch, token // Q_BLOCK)
        theirs = [slot for slot in right_slots(mask, batch, token) if slot // PAGE in pages]
        if other != layer and slots == sorted(theirs):
            return ANOTHER_LAYERS.format(other)
    lost = {slot // PAGE for slot in set(right) - set(slots)}
    return ITS_OWN if not lost or lost & {slot // PAGE for slot in slots} else TOO_FEW


@pytest.mark.parametrize("name", BATCHES)
def test_each_layer_sees_what_its_mask_allows(kata, accelerator, name):
    batch = BATCHES[name]
    _, layers = built(kata, accelerator, batch)
    lists = {layer: layers.lists_of(layer) for layer in MASKS}
    for layer in MASKS:
        expect_seen(seen_by_tokens(lists[layer], len(batch.tokens)), layer, batch)


@pytest.mark.parametrize("name", BATCHES)
def test_the_lists_name_the_pages_that_are_needed(kata, accelerator, name):
    batch = BATCHES[name]
    _, layers = built(kata, accelerator, batch)
    for layer, mask in MASKS.items():
        lists = layers.lists_of(layer)
        right = [right_pages(mask, batch, g) for g in range(len(batch.tokens) // Q_BLOCK)]
        counts = torch.tensor([len(pages) for pages in right], dtype=torch.int32)
        rows = [pages + [-1] * (NUM_PAGES + 1 - len(pages)) for pages in right]
        of = f"of layer `{layer}`, for {name},"
        likely = too_many_or_few(lists.kv_num_blocks, counts)
        expect_equal(lists.kv_num_blocks, counts, value=f"`kv_num_blocks` {of}", likely=likely)
        for group, row in enumerate(rows):
            value = f"row {group} of `kv_indices` {of}"
            right_row = torch.tensor(row, dtype=torch.int32)
            expect_equal(lists.kv_indices[group], right_row, value=value, likely=BEHIND)


def too_many_or_few(counts, right):
    if counts.shape != right.shape:
        return "A row for each group of 16 tokens of this step."
    return NOT_NEEDED if (counts.cpu() >= right).all() else MISSING


def record_step(kata, accelerator, masks=MASKS):
    """Records a build and a forward of all layers, queued after a kernel of 50 microseconds."""
    step, layers = built(kata, accelerator, BATCH, masks)
    zero, token, slot = indices(len(BATCH.tokens), step.position.device)
    for layer in masks:
        layers.lists_of(layer)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(0.05)
        layers.build(len(BATCH.tokens))
        for layer in masks:
            layers.lists_of(layer).mask_mod(zero, zero, token, slot)
    return timeline


def expect_nothing_travels(timeline):
    counts = timeline.counts()
    why = SENT if counts["h2d_pageable"] or counts["h2d_pinned"] else ASKED
    expect(timeline).counts(host_syncs=0, d2h=0, h2d_pinned=0, h2d_pageable=0, why=why)


def test_nobody_waits_and_nothing_is_sent(kata, accelerator):
    expect_nothing_travels(record_step(kata, accelerator))


def test_a_forward_queues_nothing(kata, accelerator):
    _, layers = built(kata, accelerator, BATCH)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        for layer in MASKS:
            layers.lists_of(layer)
    expect(timeline).counts(host_syncs=0, kernels=0, d2d=0, why=IN_FORWARD)


def test_layers_with_the_same_mask_share_their_lists(kata, accelerator):
    two = {"0": LayerMask(20), "1": LayerMask()}
    many = {str(layer): LayerMask(None if layer % 6 == 5 else 20) for layer in range(24)}
    for_two, for_many = (record_lists(kata, accelerator, masks) for masks in (two, many))
    few, kernels = (
        [event for event in timeline.events if event.on_device] for timeline in (for_two, for_many)
    )
    expect(for_many).that(
        len(kernels) == len(few),
        expected="24 layers with 2 different masks to take as many kernels as 2 such layers",
        did=f"takes {len(few)} for 2 layers, and {len(kernels)} for 24",
        events=kernels,
        why=SHARED,
    )


def record_lists(kata, accelerator, masks):
    _, layers = built(kata, accelerator, BATCH, masks)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        layers.build(len(BATCH.tokens))
        for layer in masks:
            layers.lists_of(layer)
    return timeline


def test_a_replay_sees_what_its_step_allows(kata, accelerator):
    # A step with a wait or an upload can't be captured.
    expect_nothing_travels(record_step(kata, accelerator))
    step, layers = built(kata, accelerator, BATCH)
    for layer in MASKS:
        seen_by_tokens(layers.lists_of(layer), len(BATCH.tokens))
    graph = accelerator.graph()
    with graph.capture():
        captured = {layer: layers.lists_of(layer) for layer in MASKS}
        seen = {
            layer: seen_by_tokens(lists, len(BATCH.tokens)) for layer, lists in captured.items()
        }
    for name, batch in BATCHES.items():
        write(batch, step)
        layers.build(len(batch.tokens))
        graph.replay()
        for layer in MASKS:
            now = seen_by_tokens(layers.lists_of(layer), len(batch.tokens))
            expect_seen(now, layer, batch)
            expect_seen(seen[layer], layer, batch, f", in a replay for {name}", STALE)


def test_flex_attention_takes_them(kata, accelerator):
    """Models share key heads among query heads: here 2 query heads use 1 key head."""
    layer, num_tokens, size = "documents, window of 10", len(BATCH.tokens), 16
    _, layers = built(kata, accelerator, BATCH)
    lists = layers.lists_of(layer)
    expect_seen(seen_by_tokens(lists, num_tokens), layer, BATCH)
    torch.manual_seed(0)
    query = torch.randn(1, 2, num_tokens, size)
    key, value = torch.randn(2, 1, 1, NUM_PAGES * PAGE, size)
    block_mask = BlockMask.from_kv_blocks(
        lists.kv_num_blocks[None, None],
        lists.kv_indices[None, None],
        BLOCK_SIZE=(Q_BLOCK, PAGE),
        mask_mod=lists.mask_mod,
        seq_lengths=(num_tokens, NUM_PAGES * PAGE),
        compute_q_blocks=False,
    )
    on_device = [tensor.to(accelerator.device) for tensor in (query, key, value)]
    attended = flex_attention(*on_device, block_mask=block_mask)[0].transpose(0, 1)
    for token in range(num_tokens):
        slots = right_slots(MASKS[layer], BATCH, token)
        scores = query[0, :, token] @ key[0, 0, slots].T / size**0.5
        right = scores.softmax(1) @ value[0, 0, slots]
        value_name = f"what flex_attention gives token {token} in layer `{layer}`"
        expect_equal(attended[token], right, value=value_name, likely=FOR_FLEX, tolerance=0.02)


def common_steps(accelerator):
    return [
        Step(
            f"build for {name}",
            (name,),
            [right_lists(mask, BATCHES[name]) for mask in MASKS.values()],
        )
        for name in (*BATCHES, *BATCHES)
    ]


def right_lists(mask, batch):
    """Returns kv_num_blocks and kv_indices of a layer with this mask."""
    pages = [right_pages(mask, batch, g) for g in range(len(batch.tokens) // Q_BLOCK)]
    rows = [row + [-1] * (NUM_PAGES + 1 - len(row)) for row in pages]
    counts = [len(row) for row in pages]
    return torch.tensor(counts, dtype=torch.int32), torch.tensor(rows, dtype=torch.int32)


def building(kata, accelerator):
    """Returns a function that builds a step, and returns the lists of all layers."""
    step = tensors_of(accelerator)
    layers = kata.LayerMasks(MASKS, step)

    def build(name):
        write(BATCHES[name], step)
        layers.build(len(BATCHES[name].tokens))
        return [layers.lists_of(layer)[:2] for layer in MASKS]

    return build


COMMON = Common(make=building, steps=common_steps, stale=BEHIND)
