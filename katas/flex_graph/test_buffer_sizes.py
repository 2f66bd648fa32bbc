"""Tests of the kata `buffer_sizes`."""

import pytest

from debubble.exercises import Diagnosis, KataFailure

REQUESTS = "There is one number for each request, and a step may have `max_num_seqs` of them."
GROUPS = (
    "A group is `q_block` query tokens of a step, and the last group may have fewer: divide "
    "`max_num_batched_tokens` by `q_block`, and round up. `max_model_len` is something else: how "
    "long one request may be. A step may have more tokens than that, or less."
)
PAGES = (
    "The tokens of a group share one list of pages, and at worst each token is of another request: "
    "16 decodes are one group of 16. Each of these requests may be as long as `max_model_len`, so "
    "the list is `q_block` times as long as the pages of one request."
)
SENTINEL = (
    "The kernel reads the entry after the last page as well, to fetch ahead. A full group has its "
    "last page in the last column: without one more, which holds -1, the kernel reads the first "
    "page of the next group, and after the last group memory that is not its own."
)
BLOCKS = (
    "It is read at [request, block]. A request may be given any block of the cache, so there is a "
    "column for each of `num_gpu_blocks`, however few of them the requests can fill; and a row for "
    "each request. Requests are not groups: 16 requests of one token share a group."
)
WHY = {
    "query_start_loc": "One start for each request, then the end of the last request.",
    "seq_lens": REQUESTS,
    "block_table": "A row for each request, with as many pages as the longest one can have: the "
    "last page may be filled in part, so round up.",
    "doc_ids": "One for each token of a step, and that is what `max_num_batched_tokens` limits. "
    "`max_model_len` limits a single request.",
    "decode_offset": REQUESTS,
    "physical_to_logical": BLOCKS,
    "kv_num_blocks": GROUPS,
    "kv_indices": GROUPS,
}
WASTE = (
    "This memory is taken for as long as the engine runs, from what the KV cache could have. No "
    "step within the limits has a use for it."
)


class Limits:
    """The limits of a step, and the number of blocks in the KV cache."""

    def __init__(self, seqs, tokens, length, blocks, block_size=16, q_block=16):
        self.max_num_seqs, self.max_num_batched_tokens = seqs, tokens
        self.max_model_len, self.num_gpu_blocks = length, blocks
        self.block_size, self.q_block = block_size, q_block

    @property
    def pages_per_seq(self):
        return self.pages_of(self.max_model_len)

    @property
    def groups(self):
        return self.groups_of(self.max_num_batched_tokens)

    @property
    def num_slots(self):
        return self.num_gpu_blocks * self.block_size

    def groups_of(self, num_tokens):
        return -(-num_tokens // self.q_block)

    def pages_of(self, num_tokens):
        return -(-num_tokens // self.block_size)

    def __repr__(self):
        return (
            f"Limits(max_num_seqs={self.max_num_seqs}, "
            f"max_num_batched_tokens={self.max_num_batched_tokens}, "
            f"max_model_len={self.max_model_len}, num_gpu_blocks={self.num_gpu_blocks}, "
            f"block_size={self.block_size}, q_block={self.q_block})"
        )


MORE_TOKENS_THAN_LENGTH = Limits(24, 200, 100, 300)
LONG_REQUESTS = Limits(40, 72, 1000, 1200, block_size=64)
A_REQUEST_FOR_EACH_TOKEN = Limits(16, 64, 100, 300)
LARGE_GROUPS = Limits(130, 300, 1000, 2000, block_size=128, q_block=128)
within_limits = pytest.mark.parametrize(
    "limits",
    [MORE_TOKENS_THAN_LENGTH, LONG_REQUESTS, LARGE_GROUPS, A_REQUEST_FOR_EACH_TOKEN],
    ids=["many tokens", "long requests", "large groups", "as many requests as tokens of a group"],
)


def decodes_of(limits):
    """Returns the most requests of a step, with one token each and the greatest length."""
    return [(1, limits.max_model_len)] * limits.max_num_seqs


def prompts_of(limits):
    """Returns the most tokens of a step, in as few requests as the greatest length allows."""
    left, requests = limits.max_num_batched_tokens, []
    while left:
        tokens = min(left, limits.max_model_len)
        requests.append((tokens, tokens))
        left -= tokens
    return requests


def words(requests):
    """Returns what a failing test calls the requests; each is (tokens in this step, tokens in
    all)."""
    if len(set(requests)) == 1:
        tokens, length = requests[0]
        return f"a step of {len(requests)} requests, each with {tokens} of its {length} tokens"
    counts = " and ".join(f"{tokens} of {length}" for tokens, length in requests)
    return f"a step of {len(requests)} requests, with {counts} tokens"


def pages_of_groups(limits, requests):
    """Returns how many pages each group of a step needs if no two requests share one."""
    owners = [request for request, (tokens, _) in enumerate(requests) for _ in range(tokens)]
    groups = [owners[at : at + limits.q_block] for at in range(0, len(owners), limits.q_block)]
    lengths = [length for _, length in requests]
    return [sum(limits.pages_of(lengths[request]) for request in {*group}) for group in groups]


def room_for(limits, requests, last_block):
    """Returns the shapes that a step needs, by name. `last_block` is the last block in its
    tables."""
    pages = pages_of_groups(limits, requests)
    seqs = len(requests)
    return {
        "query_start_loc": (seqs + 1,),
        "seq_lens": (seqs,),
        "block_table": (seqs, max(limits.pages_of(length) for _, length in requests)),
        "doc_ids": (sum(tokens for tokens, _ in requests),),
        "decode_offset": (seqs,),
        "physical_to_logical": (seqs, last_block + 1),
        "kv_num_blocks": (len(pages),),
        "kv_indices": (len(pages), max(pages)),
    }


def claim(holds, expected, did, why):
    if not holds:
        raise KataFailure(Diagnosis(expected, did, why=why))


def shapes_of(kata, limits):
    """Returns the kata's shapes, after a check that each has the right number of dimensions."""
    shapes = kata.buffer_shapes(limits)
    for name, room in room_for(limits, [(1, 1)], last_block=1).items():
        shape = shapes.get(name)
        claim(
            shape is not None and len(shape) == len(room),
            expected=f"a shape of {len(room)} numbers for `{name}`",
            did=f"has {None if shape is None else tuple(shape)}",
            why=WHY[name],
        )
    return {name: tuple(shapes[name]) for name in WHY}


def expect_room(kata, limits, requests, last_block=1, names=WHY):
    shapes = shapes_of(kata, limits)
    room = room_for(limits, requests, last_block)
    for name in names:
        shape, needed = shapes[name], room[name]
        why = WHY[name]
        if name == "kv_indices" and shape[0] >= needed[0]:
            why = PAGES
        claim(
            all(has >= needs for has, needs in zip(shape, needed, strict=True)),
            expected=f"room in `{name}` for {words(requests)}, which needs {needed}",
            did=f"made it {shape} for {limits}",
            why=why,
        )


@within_limits
def test_a_small_step_fits(kata, limits):
    expect_room(kata, limits, [(3, 3), (1, 20)])


@within_limits
def test_a_step_of_as_many_tokens_as_there_may_be_fits(kata, limits):
    expect_room(kata, limits, prompts_of(limits))


@within_limits
def test_a_step_of_as_many_requests_as_there_may_be_fits(kata, limits):
    expect_room(kata, limits, decodes_of(limits))


@within_limits
def test_each_request_may_have_the_last_block(kata, limits):
    last_block = limits.num_gpu_blocks - 1
    shape = shapes_of(kata, limits)["physical_to_logical"]
    claim(
        shape[0] >= limits.max_num_seqs and shape[1] > last_block,
        expected=f"a place in `physical_to_logical` for request {limits.max_num_seqs - 1} and "
        f"block {last_block}, the last ones",
        did=f"made it {shape} for {limits}",
        why=BLOCKS,
    )


@within_limits
def test_a_full_group_has_a_column_to_spare(kata, limits):
    _, columns = shapes_of(kata, limits)["kv_indices"]
    pages = max(pages_of_groups(limits, decodes_of(limits)))
    claim(
        columns > pages,
        expected=f"a column of `kv_indices` after the {pages} pages of a full group",
        did=f"made {columns} columns for {limits}",
        why=SENTINEL if columns == pages else PAGES,
    )


@within_limits
def test_nothing_is_larger_than_the_largest_step(kata, limits):
    shapes = shapes_of(kata, limits)
    largest = [
        room_for(limits, requests, limits.num_gpu_blocks - 1)
        for requests in (decodes_of(limits), prompts_of(limits))
    ]
    for name, shape in shapes.items():
        room = [max(sizes) for sizes in zip(*(step[name] for step in largest), strict=True)]
        if name == "kv_indices":
            room[-1] += 1
        claim(
            all(has <= most for has, most in zip(shape, room, strict=True)),
            expected=f"`{name}` to be no larger than {tuple(room)}",
            did=f"made it {shape} for {limits}",
            why=f"{WASTE} {WHY[name]}",
        )
