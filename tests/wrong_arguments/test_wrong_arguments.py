"""Wrong values: for every argument of every public function of the five systems, every kind of
wrong value is refused. The sentence has the argument or the value, and nothing has changed or
waited before; or the value is on the list of what is accepted, with a reason. Values have the right
type: Python and PyTorch refuse wrong types in their own words."""

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
from .accepted import BECAUSE, BY_OTHERS, UNCHECKED, accepted
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


@pytest.fixture(scope="module")
def calls(accelerator):
    return all_calls(accelerator)


@pytest.mark.deep(12)
@pytest.mark.parametrize("number", range(NUM_CALLS))
@pytest.mark.filterwarnings("ignore")
def test_what_is_wrong_is_refused_or_known_to_be_right(accelerator, calls, number):
    name = [*calls][number]
    if name in UNCHECKED:
        pytest.skip("PyTorch's own operators refuse")
    outcomes = [*outcomes_of(calls[name], accelerator)]
    bad = [each for each in outcomes if each.problem and each.id not in BY_OTHERS]
    assert not bad, "\n".join(f"{each.id}: {each.problem}: {each.sentence}" for each in bad)
    known = accepted()
    for each in outcomes:
        if each.accepted:
            assert f"{each.call}({each.parameter})" in known.get(each.kind, ()), each.id


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


def test_each_kind_that_is_accepted_has_a_reason():
    assert accepted().keys() <= BECAUSE.keys()


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
