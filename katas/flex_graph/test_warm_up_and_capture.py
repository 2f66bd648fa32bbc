"""Tests of the kata `warm_up_and_capture`."""

import torch

from debubble.exercises import Diagnosis, KataFailure, expect_equal

PAGE, MAX_MODEL_LEN = 16, 48
SIZES = (4, 8, 1)  # deliberately unsorted
MOST_TOKENS = max(SIZES)
FIRST_CALL = (
    "A first call compiles. The compiler tries its kernels and waits for the device to time them, "
    "and during a capture no wait is allowed: CUDA ends the capture with an error. So call "
    "`forward` once before you capture it, and not after."
)
EACH_SIZE = (
    "Different sizes have different shapes, and each shape is compiled separately. Warm up each "
    "size with the call that you capture next."
)
SAME_LENGTH = (
    "A longer request has more pages, so the tables have another shape, and the warm-up has "
    "compiled something else. Warm up with exactly what you capture: as many tokens, and as long "
    "requests."
)
LONGEST = (
    "The number of pages that `forward` reads is a Python number, and a graph keeps the number of "
    "its capture. Captured with `seq_len` 1, it reads 1 page of each request in every replay, "
    "however long the requests are by then. Capture with the longest possible length: "
    "`max_model_len`."
)
NO_SUCH_LENGTH = (
    "No request is longer than `max_model_len`, so the tables of the model have no pages after it: "
    "for a longer request it reads memory that is not its own, or fails. `max_model_len` itself is "
    "long enough for every request."
)
LIVE = (
    "A warm-up runs `forward` for real, and `forward` writes a key for each token: to its slot of "
    "`slot_mapping`, which may be the place of a request that is still being served. Slot -1 means "
    "no slot: give it to all tokens before the first call."
)
GROWN = (
    "This model keeps scratch memory, and makes a larger one when a call needs more. A graph that "
    "was captured before that goes on using the old one, which is freed by then and may be in use "
    "elsewhere. So nothing may grow after a capture: begin with the largest size."
)
ALL_SIZES = (
    "A step runs in the smallest graph that holds its tokens: there has to be one for each size."
)


def claim(holds, *, expected, did, why):
    if not holds:
        raise KataFailure(Diagnosis(expected, did, why=why))


class Model:
    """A model for steps of decodes. Token i belongs to request i, whose keys have a place of their
    own in the cache. The result is the sum of each request's keys."""

    def __init__(self, accelerator):
        on_device = {"dtype": torch.int32, "device": accelerator.device}
        self.new_keys = torch.zeros(MOST_TOKENS, **on_device)
        self.seq_lens = torch.zeros(MOST_TOKENS, **on_device)
        self.slot_mapping = torch.full((MOST_TOKENS,), -1, **on_device)
        # Page 0 belongs to no request: keys without a slot are written there.
        self.cache = torch.zeros(PAGE + MOST_TOKENS * MAX_MODEL_LEN, **on_device)
        self.calls = []

    def forward(self, num_tokens, seq_len):
        self.calls.append((num_tokens, seq_len))
        slots = self.slot_mapping[:num_tokens].clamp(min=0)
        self.cache.index_copy_(0, slots.long(), self.new_keys[:num_tokens])
        num_keys = min(pages_of(seq_len) * PAGE, MAX_MODEL_LEN)
        keys = self.cache[PAGE:].view(MOST_TOKENS, MAX_MODEL_LEN)[:num_tokens, :num_keys]
        position = torch.arange(num_keys, device=keys.device)
        return (keys * (position < self.seq_lens[:num_tokens, None])).sum(1)


def pages_of(seq_len):
    return -(-seq_len // PAGE)


def slots_of(seq_lens):
    """Returns the slot of each request's last token."""
    return torch.tensor([PAGE + i * MAX_MODEL_LEN + n - 1 for i, n in enumerate(seq_lens)])


class CompiledModel(Model):
    """A model that compiles when it is called with new shapes."""

    def __init__(self, accelerator):
        super().__init__(accelerator)
        self.compiled, self.refused = set(), None

    def forward(self, num_tokens, seq_len):
        shapes = num_tokens, pages_of(seq_len)
        if shapes not in self.compiled:
            self.compile(num_tokens, seq_len)
            self.compiled.add(shapes)
        return super().forward(num_tokens, seq_len)

    def compile(self, num_tokens, seq_len):
        try:
            self.new_keys.sum().item()  # waits as a compiler does, which times its kernels
        except RuntimeError:
            self.refused = num_tokens, seq_len
            raise


class GrowingModel(Model):
    """A model that keeps scratch memory for the largest step so far."""

    def __init__(self, accelerator):
        super().__init__(accelerator)
        self.scratch = self.new_keys[:0]
        self.scratch_of_size = {}

    def forward(self, num_tokens, seq_len):
        needed = num_tokens * MAX_MODEL_LEN
        if len(self.scratch) < needed:
            self.scratch = self.scratch.new_zeros(needed)
        self.scratch_of_size[num_tokens] = self.scratch.data_ptr()
        return super().forward(num_tokens, seq_len)


def capture(kata, model):
    return kata.warm_up_and_capture(model.forward, model.slot_mapping, SIZES, MAX_MODEL_LEN)


def called(calls):
    """Returns the calls in words: "forward(8, 1) and forward(4, 1)"."""
    return " and ".join(f"forward{call}" for call in dict.fromkeys(calls)) or "nothing"


def test_each_size_has_a_graph(kata, accelerator):
    captured = capture(kata, Model(accelerator))
    expect_equal(sorted(captured), sorted(SIZES), value="the sizes with a graph", likely=ALL_SIZES)
    for size in SIZES:
        value = f"the shape of the output of size {size}"
        expect_equal(tuple(captured[size].output.shape), (size,), value=value)


def test_a_replay_is_right_at_any_length(kata, accelerator):
    model = Model(accelerator)
    captured = capture(kata, model)
    for size in SIZES:
        for seq_lens in (
            [1 + i for i in range(size)],
            [MAX_MODEL_LEN - 2 * i for i in range(size)],
        ):
            keys = torch.arange(len(model.cache), dtype=torch.int32) % 7 + 1
            model.cache.copy_(keys)
            model.seq_lens[:size].copy_(torch.tensor(seq_lens))
            model.slot_mapping[:size].copy_(slots_of(seq_lens))
            model.new_keys[:size].copy_(torch.arange(size) + 100)
            captured[size].graph.replay()
            keys[slots_of(seq_lens)] = torch.arange(size, dtype=torch.int32) + 100
            rows = keys[PAGE:].view(MOST_TOKENS, MAX_MODEL_LEN)
            right = torch.stack([rows[i, :n].sum() for i, n in enumerate(seq_lens)])
            value = f"the output of a replay with requests of {seq_lens} tokens"
            expect_equal(captured[size].output, right, value=value, likely=LONGEST)


def test_nothing_is_compiled_during_a_capture(kata, accelerator):
    model = CompiledModel(accelerator)
    try:
        capture(kata, model)
    except RuntimeError:
        if model.refused is None:
            raise
    claim(
        model.refused is None,
        expected="nothing to be compiled during a capture",
        did=f"captured forward{model.refused}, which has to be compiled: before that, it had "
        f"called {called(model.calls)}",
        why=why_it_compiles(model),
    )


def why_it_compiles(model):
    if not model.calls:
        return FIRST_CALL
    same_size = model.refused and any(call[0] == model.refused[0] for call in model.calls)
    return SAME_LENGTH if same_size else EACH_SIZE


def test_no_request_is_longer_than_the_model_allows(kata, accelerator):
    model = Model(accelerator)
    capture(kata, model)
    wrong = [call for call in model.calls if not 1 <= call[1] <= MAX_MODEL_LEN]
    claim(
        not wrong,
        expected=f"`seq_len` to be at most `max_model_len`, which is {MAX_MODEL_LEN} here",
        did=f"called {called(wrong[:1])}",
        why=NO_SUCH_LENGTH,
    )


def test_requests_in_the_cache_are_left_alone(kata, accelerator):
    model = Model(accelerator)
    keys = torch.arange(len(model.cache), dtype=torch.int32)
    model.cache.copy_(keys)
    # The last step has left its slots.
    model.slot_mapping.copy_(slots_of([5] * MOST_TOKENS))
    capture(kata, model)
    value = "the cache of requests that are being served, after warm_up_and_capture,"
    expect_equal(model.cache[PAGE:], keys[PAGE:], value=value, likely=LIVE)


def test_no_graph_keeps_memory_that_was_given_up(kata, accelerator):
    model = GrowingModel(accelerator)
    capture(kata, model)
    old = [n for n, address in model.scratch_of_size.items() if address != model.scratch.data_ptr()]
    claim(
        not old,
        expected="all graphs to use the scratch memory that the model has at the end",
        did=f"captured size {old[0] if old else 0}, and a later call made larger scratch memory",
        why=GROWN,
    )


def test_the_sizes_may_be_a_generator(kata, accelerator):
    model, sizes = Model(accelerator), (size for size in SIZES)
    captured = kata.warm_up_and_capture(model.forward, model.slot_mapping, sizes, MAX_MODEL_LEN)
    expect_equal(sorted(captured), sorted(SIZES), value="the sizes with a graph", likely=ONCE)


ONCE = (
    "`capture_sizes` is an Iterable: a generator can be gone through once. Make a set or a list of "
    "it first."
)
