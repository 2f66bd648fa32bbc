"""Tests of the kata `persistent_metadata`."""

import pytest
import torch

import debubble
from debubble.exercises import (
    Common,
    expect,
    expect_equal,
    left_as_they_were,
)
from debubble.exercises import (
    Step as CommonStep,
)

REQUESTS, TOKENS, GROUP, PAGE, PAGES = 6, 48, 16, 16, 2
GROUPS, BLOCKS = TOKENS // GROUP, REQUESTS * PAGES
SIZES = {
    "query_start_loc": (REQUESTS + 1,),
    "seq_lens": (REQUESTS,),
    "decode_offset": (REQUESTS,),
    "doc_ids": (TOKENS,),
    "kv_num_blocks": (GROUPS,),
    "kv_indices": (GROUPS, GROUP * PAGES + 1),
}
STEP = (
    "These are the numbers of the step itself. A token belongs to the first request that ends "
    "after it, and requests without tokens have none; `decode_offset` is the length without the "
    "tokens of this step; a group needs as many pages as its row of `pages` has numbers that are "
    "not -1."
)
ROWS = (
    "The stride of the buffer says where a row begins, and a graph has captured that. Cut the step "
    "out of the buffer as a slice: `as_strided` with the strides of `pages` packs the rows, and a "
    "graph finds the second one inside of the first."
)
WHOLE = (
    "Attention is compiled and captured for the sizes of its arguments. Slices of the step's size "
    "make it compile again for every number of requests, and a graph knows only the sizes of its "
    "capture. Pass the whole buffers: the values after the step are there, and neutral."
)
BEHIND_THE_REQUESTS = (
    "A replay goes through all the requests of its capture. Requests that this step does not have "
    "must have no tokens and no length: their starts are the end of the last request, "
    "`query_start_loc[-1]`, which may stay on the device; `seq_lens` and `decode_offset` are 0."
)
PADDING = (
    "A replay computes as many tokens as its capture had. Tokens after the last request look up a "
    "request too, so each of them needs a request that exists: 0. An entry that is not written "
    "holds a number of a larger step, or of new memory, and may be no request at all."
)
UNUSED = (
    "A group without tokens still has a program in the captured kernel, and it computes as many "
    "pages as `kv_num_blocks` says. If a larger step has left its numbers there, these pages may "
    "be another request's by now. 0 costs next to nothing."
)
SENTINEL = (
    "The kernel reads the entry after the last page as well, to fetch ahead. It has to be -1, "
    "which is no page: neither 0, which is a block as well, nor a number of a larger step."
)
REPLAYED = (
    "The graph was captured with the largest step, and reads its buffers as far as that step went: "
    "it also reads what a smaller step does not write. After the tokens of a step this model "
    "should find nothing, and return -1."
)
ELSEWHERE = (
    "A graph reads the addresses, sizes and strides that it has captured. It does not know new "
    "tensors, and does not find rows of `kv_indices` that begin at other places."
)
STAYS = (
    "The host knows how many requests there are, but not how many tokens: that is on the device. "
    "`.item()` waits for it, and so does every call whose result has a size that only the device "
    "knows: `repeat_interleave` without `output_size`, `nonzero`, an index that is a mask. A graph "
    "can capture none of them. The result of `torch.searchsorted` has the size of its second "
    "argument."
)


class Step:
    """A step of requests, (tokens in this step, tokens in all) each. Request r has the blocks from
    2r on, and a group needs all pages of the requests that have tokens in it."""

    def __init__(self, *requests):
        self.requests = requests
        self.query_lens = [tokens for tokens, _ in requests]
        self.seq_lens = [length for _, length in requests]
        self.starts = [sum(self.query_lens[:end]) for end in range(len(requests) + 1)]
        self.owners = [
            request for request, tokens in enumerate(self.query_lens) for _ in range(tokens)
        ]
        groups = [self.owners[at : at + GROUP] for at in range(0, len(self.owners), GROUP)]
        self.pages = [
            [page for request in sorted({*group}) for page in self.pages_of(request)]
            for group in groups
        ]

    def pages_of(self, request):
        first = request * PAGES
        return range(first, first + len(range(0, self.seq_lens[request], PAGE)))

    def tensors(self, accelerator):
        """Returns the step's tensors. `pages` is as wide as its longest request needs."""
        width = GROUP * max(len(self.pages_of(request)) for request in range(len(self.requests)))
        pages = [row + [-1] * (width - len(row)) for row in self.pages]
        return [
            torch.tensor(numbers, dtype=torch.int32).to(accelerator.device)
            for numbers in (self.starts, self.seq_lens, pages)
        ]

    def __str__(self):
        counts = [f"{tokens} of {length}" for tokens, length in self.requests]
        return f"a step of {len(counts)} requests ({', '.join(counts)} tokens)"


LARGEST = Step((10, 26), (1, 32), (16, 16), (8, 8), (6, 22), (7, 31))
SMALL = Step((3, 9), (1, 12))
DECODES = Step((1, 31), (1, 17), (1, 2))
OTHER_DECODES = Step((1, 17), (1, 2), (1, 31))
WITH_AN_EMPTY_ONE = Step((20, 20), (5, 30), (0, 0))
STEPS = {"small": SMALL, "decodes": DECODES, "an empty request": WITH_AN_EMPTY_ONE}
of_each_step = pytest.mark.parametrize("step", STEPS.values(), ids=STEPS.keys())


def buffers_of(kata, accelerator):
    def buffer(name):
        empty = -1 if name == "kv_indices" else 0
        return torch.full(SIZES[name], empty, dtype=torch.int32, device=accelerator.device)

    return kata.MetadataTensors(**{name: buffer(name) for name in SIZES})


def behind_the_largest(kata, accelerator, step):
    """Returns the buffers after the largest step, followed by this step."""
    buffers = buffers_of(kata, accelerator)
    for one in (LARGEST, step):
        kata.persistent_metadata(buffers, *one.tensors(accelerator))
    return buffers


@pytest.mark.parametrize("step", [*STEPS.values(), LARGEST], ids=[*STEPS, "the largest"])
def test_a_step_has_its_own_numbers(kata, accelerator, step):
    buffers = buffers_of(kata, accelerator)
    query_start_loc, seq_lens, pages = given = step.tensors(accelerator)
    with left_as_they_were(query_start_loc=query_start_loc, seq_lens=seq_lens, pages=pages):
        metadata = kata.persistent_metadata(buffers, *given)
    counts = [len(pages) for pages in step.pages]
    computed = [length - tokens for tokens, length in step.requests]
    right = {
        "query_start_loc": step.starts,
        "seq_lens": step.seq_lens,
        "decode_offset": computed,
        "doc_ids": step.owners,
        "kv_num_blocks": counts,
    }
    for name, numbers in right.items():
        value = f"`{name}` of {step}, without what is behind them,"
        tensor = torch.tensor(numbers, dtype=torch.int32)
        expect_equal(getattr(metadata, name)[: len(numbers)], tensor, value=value, likely=STEP)
    for group, pages in enumerate(step.pages):
        row = metadata.kv_indices[group, : len(pages)]
        value = f"`kv_indices` of group {group} of {step}, without what is behind its pages,"
        expect_equal(row, torch.tensor(pages, dtype=torch.int32), value=value, likely=ROWS)


def test_sizes_and_places_are_the_same_in_every_step(kata, accelerator):
    buffers = buffers_of(kata, accelerator)
    for step in (LARGEST, *STEPS.values()):
        metadata = kata.persistent_metadata(buffers, *step.tensors(accelerator))
        for name, size in SIZES.items():
            tensor, whole = getattr(metadata, name), getattr(buffers, name)
            value = f"the shape of `{name}` of {step}"
            expect_equal(tuple(tensor.shape), size, value=value, likely=WHOLE)
            value = f"the stride of `{name}` of {step}"
            expect_equal(tensor.stride(), whole.stride(), value=value, likely=ROWS)
            value = f"`{name}.data_ptr() == buffers.{name}.data_ptr()` of {step}"
            same = tensor.data_ptr() == whole.data_ptr()
            expect_equal(same, True, value=value, likely=WHOLE)


@of_each_step
def test_behind_the_requests_there_are_none(kata, accelerator, step):
    buffers = behind_the_largest(kata, accelerator, step)
    rest = REQUESTS - len(step.requests)
    for name, neutral in {
        "query_start_loc": step.starts[-1],
        "seq_lens": 0,
        "decode_offset": 0,
    }.items():
        expect_equal(
            getattr(buffers, name)[-rest:],
            torch.full((rest,), neutral, dtype=torch.int32),
            value=f"`buffers.{name}[-{rest}:]`, after the largest step and then {step},",
            likely=BEHIND_THE_REQUESTS,
        )


@of_each_step
def test_tokens_that_pad_the_batch_are_of_request_0(kata, accelerator, step):
    buffers = behind_the_largest(kata, accelerator, step)
    rest = TOKENS - len(step.owners)
    expect_equal(
        buffers.doc_ids[-rest:],
        torch.zeros(rest, dtype=torch.int32),
        value=f"`buffers.doc_ids[-{rest}:]`, after the largest step and then {step},",
        likely=PADDING,
    )


@of_each_step
def test_groups_without_tokens_have_no_pages(kata, accelerator, step):
    buffers = behind_the_largest(kata, accelerator, step)
    rest = GROUPS - len(step.pages)
    expect_equal(
        buffers.kv_num_blocks[-rest:],
        torch.zeros(rest, dtype=torch.int32),
        value=f"`buffers.kv_num_blocks[-{rest}:]`, after the largest step and then {step},",
        likely=UNUSED,
    )


@of_each_step
def test_behind_the_last_page_is_minus_1(kata, accelerator, step):
    buffers = behind_the_largest(kata, accelerator, step)
    for group in range(GROUPS):
        count = len(step.pages[group]) if group < len(step.pages) else 0
        expect_equal(
            buffers.kv_indices[group, count].item(),
            -1,
            value=f"`buffers.kv_indices[{group}, {count}]`, behind the {count} pages of group "
            f"{group}, after the largest step and then {step},",
            likely=SENTINEL,
        )


def capture_a_model(accelerator, metadata, values):
    """Captures a graph that adds up, for each token, the values of its group's pages and its
    position in its request. The result is -1 where there is no token. Ids are clamped, so that a
    wrong id can't make the GPU useless for later tests."""
    result = torch.zeros(TOKENS, dtype=torch.int64, device=accelerator.device)

    def model():
        request = metadata.doc_ids.long().clamp(0, REQUESTS - 1)
        token = torch.arange(len(request), device=accelerator.device)
        position = token - metadata.query_start_loc[request] + metadata.decode_offset[request]
        of_pages = values.take(metadata.kv_indices.long().clamp(0, BLOCKS - 1))
        column = torch.arange(of_pages.shape[1], device=accelerator.device)
        is_page = column < metadata.kv_num_blocks[:, None]
        of_group = torch.where(is_page, of_pages, 0).sum(1)
        of_token = of_group[:, None].expand(-1, GROUP).reshape(-1)
        is_token = position < metadata.seq_lens[request]
        result.copy_(torch.where(is_token, of_token + position, -1))

    model()
    graph = accelerator.graph()
    with graph.capture():
        model()
    return graph, result


def right_result(step, values):
    sums = [sum(values[page] for page in pages) for pages in step.pages]
    tokens = []
    for count, length in step.requests:
        for position in range(length - count, length):
            tokens.append(sums[len(tokens) // GROUP] + position)
    return torch.tensor(tokens + [-1] * (TOKENS - len(tokens)))


def what_a_replay_found(num_tokens):
    """Returns a function that tells the likely cause of a difference in a step of `num_tokens`
    tokens."""

    def cause(actual, expected):
        right = actual[:num_tokens].cpu() == expected[:num_tokens]
        return REPLAYED if right.all() else ELSEWHERE

    return cause


def test_a_replay_reads_the_batch_of_its_step(kata, accelerator):
    buffers = buffers_of(kata, accelerator)
    values = torch.arange(100, 100 * (BLOCKS + 1), 100).to(accelerator.device)
    metadata = kata.persistent_metadata(buffers, *LARGEST.tensors(accelerator))
    graph, result = capture_a_model(accelerator, metadata, values)
    for step in (SMALL, LARGEST, WITH_AN_EMPTY_ONE, DECODES):
        kata.persistent_metadata(buffers, *step.tensors(accelerator))
        graph.replay()
        value = f"what a graph of the largest step computes for the tokens of {step}"
        right = right_result(step, values.tolist())
        expect_equal(result, right, value=value, likely=what_a_replay_found(len(step.owners)))


def test_nobody_waits_and_nothing_is_sent(kata, accelerator):
    buffers, step = buffers_of(kata, accelerator), SMALL.tensors(accelerator)
    kata.persistent_metadata(buffers, *step)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(0.1)
        kata.persistent_metadata(buffers, *step)
    expect(timeline).counts(host_syncs=0, d2h=0, h2d_pinned=0, h2d_pageable=0, why=STAYS)


EMPTY_IN_THE_MIDDLE = Step((9, 9), (0, 0), (5, 32), (0, 16), (2, 4))


def common_steps(accelerator):
    named = {"the largest step": LARGEST, "1 request": Step((1, 1))}
    for number, step in enumerate((SMALL, EMPTY_IN_THE_MIDDLE, DECODES, OTHER_DECODES)):
        named[f"step {number}, which is {step},"] = step
    steps = []
    for name, step in named.items():
        starts, lengths, pages = step.tensors(accelerator)
        width = max(map(len, step.pages))  # a table as wide as this step needs it
        arguments = starts, lengths, pages[:, :width].contiguous()
        steps.append(CommonStep(f"persistent_metadata of {name}", arguments, whole(step)))
    nothing = (
        torch.zeros(1, dtype=torch.int32).to(accelerator.device),
        torch.zeros(0, dtype=torch.int32).to(accelerator.device),
        torch.zeros(0, 4, dtype=torch.int32).to(accelerator.device),
    )
    return [*steps, CommonStep("persistent_metadata of an empty step", nothing, whole(Step()))]


def whole(step):
    """Returns the buffers with the step at their start, and neutral values after it."""
    computed = [length - tokens for tokens, length in step.requests]
    right = {
        "query_start_loc": (step.starts, step.starts[-1]),
        "seq_lens": (step.seq_lens, 0),
        "decode_offset": (computed, 0),
        "doc_ids": (step.owners, 0),
        "kv_num_blocks": ([len(pages) for pages in step.pages], 0),
    }
    buffers = []
    for name, shape in SIZES.items():
        if name == "kv_indices":
            buffer = torch.full(shape, -1, dtype=torch.int32)
            for group, pages in enumerate(step.pages):
                buffer[group, : len(pages)] = torch.tensor(pages, dtype=torch.int32)
        else:
            values, neutral = right[name]
            buffer = torch.full(shape, neutral, dtype=torch.int32)
            buffer[: len(values)] = torch.tensor(values, dtype=torch.int32)
        buffers.append(buffer)
    return buffers


def writing(kata, accelerator):
    buffers = buffers_of(kata, accelerator)
    return lambda *given: kata.persistent_metadata(buffers, *given)


COMMON = Common(make=writing, steps=common_steps, stale=REPLAYED)
