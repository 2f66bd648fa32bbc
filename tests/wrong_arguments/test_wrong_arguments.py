"""Wrong values: for every argument of every public function of the five systems, every kind of
wrong value is tried. A refusal's sentence has the argument or the value, and nothing has changed
before; a value that is accepted makes the host wait no more than a right one. Values have the right
type: Python and PyTorch refuse wrong types in their own words. Which values each system refuses is
in its own tests."""

import inspect
import warnings

import pytest
import torch

import debubble
import solutions.flex_graph
import solutions.gdn
import solutions.offload
import solutions.pinned_h2d
import solutions.sync_free
from solutions.common.shown import shown
from solutions.flex_graph.steps.limits import checked_capture_sizes
from tests.flex_graph.tables import LIMITS

from . import kinds
from .all_calls import all_calls
from .search import outcomes_of

pytestmark = [pytest.mark.sim, pytest.mark.usefixtures("only_launched")]
NUM_CALLS = 58
LEAST_CASES = 1_500
SYSTEMS = (
    solutions.flex_graph,
    solutions.gdn,
    solutions.offload,
    solutions.pinned_h2d,
    solutions.sync_free,
)
NOT_SEARCHED = {
    "DataParallelGroup": "its ranks are processes: test_failing_ranks",
    "allow_waits": "it takes nothing",
    "copy_batch": "its arguments are those of swap_blocks_batch, which calls it",
    "swap_with_preset": "upstream's way, kept to be measured beside ours",
    "launch_swap": "it says that nothing is checked",
    "pinned_blocks": "sizes of memory alone",
    "registered": "it takes memory that the caller owns, and tests/offload say how it fails",
    "paged_mask_mod": "its arguments are made by a builder, and by nobody else",
}

BY_OTHERS = {
    "apply_bad_words(logits: as torch.int64)": "filled with -inf, which PyTorch refuses",
    "apply_bad_words(logits: as torch.int32)": "filled with -inf, which PyTorch refuses",
    "apply_bad_words(logits: as torch.int8)": "filled with -inf, which PyTorch refuses",
    "clear_rows(tables: with nothing in it)": "Python's own: of no tables there is no smallest",
    "clear_rows(tables: one short)": "Python's own sentence: of no tables there is no smallest",
    "PagedRequests(seed: negative)": "numpy's own sentence",
    "PagedRequests(seed: very negative)": "numpy's own sentence",
    "swap_blocks_batch(min_n: beyond int32)": "so it is a DMA batch, which names the stream",
    "range_tensors_by_micro_batch(batches: one more)": "it says how many rows are too many",
    "swap_blocks_batch(min_n: beyond int64)": "so it is a DMA batch, which names the stream",
    "prepare_chunk_tables_on_device(num_tokens: beyond int32)": "it says what such tables need",
    "prepare_chunk_tables_on_device(num_tokens: beyond int64)": "it says what such tables need",
    "update_ngram_gpu_tensors_incremental(prev_req_id_to_row: an empty dict)": (
        "it names the request that the map lacks"
    ),
    "update_ngram_gpu_tensors_incremental(prev_req_id_to_row: with a negative key)": (
        "it names the request that the map lacks"
    ),
}
"""Arguments whose wrong value is refused, with nothing changed, by a called function or by a
consequence: {"function(argument: kind)": reason}. A sentence about the argument itself would say no
more."""
UNCHECKED = ("StagingRing.upload", "copy_to_persistent", "physical_to_logical_mapping")
"""Functions whose arguments are not checked: short answers to exercises that use only PyTorch's
operators, which refuse wrong arguments in their own words."""


@pytest.fixture(scope="module")
def calls(accelerator):
    return all_calls(accelerator)


@pytest.mark.deep(12)
@pytest.mark.parametrize("number", range(NUM_CALLS))
@pytest.mark.filterwarnings("ignore")
def test_a_wrong_value_is_refused_by_its_name_or_makes_nobody_wait(accelerator, calls, number):
    name = [*calls][number]
    if name in UNCHECKED:
        pytest.skip("PyTorch's own operators refuse")
    outcomes = outcomes_of(calls[name], accelerator)
    bad = [each for each in outcomes if each.problem and each.id not in BY_OTHERS]
    assert not bad, "\n".join(f"{each.id}: {each.problem}: {each.sentence}" for each in bad)


NUMBERS_WITHIN = {
    "the start of token types": lambda one: solutions.sync_free._init_model_kwargs(
        {0: one}, torch.zeros_like(one)[None], torch.tensor([1]), 1
    ),
    "an id of a bad word": lambda one: solutions.sync_free.apply_bad_words(
        torch.zeros_like(one)[None, None].float(), {0: [[one]]}, [[]]
    ),
    "an id that is asked for": lambda one: solutions.sync_free.gather_specific_token_logprobs(
        torch.zeros_like(one)[None, None].float(), {0: [one]}, torch.zeros_like(one)[None]
    ),
    "the end of a span": lambda one: solutions.pinned_h2d.check_ranges({0: [(0, one)]}),
    "a capture size": lambda one: checked_capture_sizes([one, one], LIMITS),
}


@pytest.mark.parametrize("call", NUMBERS_WITHIN.values(), ids=NUMBERS_WITHIN)
def test_a_number_on_the_device_is_refused_without_reading_it(accelerator, call):
    one = torch.ones((), dtype=torch.int64, device=accelerator.device)
    with debubble.record(accelerator) as timeline, pytest.raises((TypeError, ValueError)):
        call(one)
    counts = timeline.counts()
    assert counts["host_syncs"] == counts["d2h"] == 0


def test_the_search_is_a_wide_one(accelerator, calls):
    assert len(calls) == NUM_CALLS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = sum(
            len(kinds.of(call.right()[parameter]))
            for call in calls.values()
            for parameter in call.parameters
        )
    assert cases > LEAST_CASES


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.__name__.split(".")[-1])
def test_every_public_function_is_searched(calls, system):
    functions = {name for name in system.__all__ if inspect.isfunction(getattr(system, name))}
    assert functions <= calls.keys() | NOT_SEARCHED.keys()


def test_a_tensor_is_shown_without_being_read(accelerator):
    number = torch.zeros(2, 3, device=accelerator.device)
    with debubble.record(accelerator) as timeline:
        text = shown(number)
    assert text == f"a torch.float32 tensor [2, 3] on {number.device}"
    assert timeline.counts()["host_syncs"] == 0
