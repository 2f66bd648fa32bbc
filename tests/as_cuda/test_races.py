"""Right programs have no race, and of wrong ones both lines are named.

`reported` has races from public issues, `wrong` one of each kind that we know.
"""

import inspect

import pytest

import debubble

from .races import reported, right, wrong

pytestmark = pytest.mark.sim

UNPROVEN = {
    "block_assigned_while_it_is_loaded",
    "block_filled_by_index_while_it_is_loaded",
    "block_gathered_while_it_is_loaded",
    "block_indexed_while_it_is_loaded",
    "block_loaded_while_a_request_reads_it",
    "block_looked_up_while_it_is_loaded",
    "block_masked_while_it_is_loaded",
    "block_of_a_graph_loaded_too_early",
    "block_of_a_plane_indexed_while_it_is_loaded",
    "block_scattered_while_it_is_loaded",
    "block_selected_while_it_is_loaded",
    "block_stored_before_it_is_written",
    "block_stored_before_its_kernel_has_run",
    "block_written_by_index_copy_while_it_is_loaded",
    "block_zeroed_after_it_was_loaded",
    "buffer_asked_for_here_and_written_there",
    "element_taken_while_it_is_loaded",
    "embeddings_offloaded_and_resized",
    "gradients_added_up_by_a_worker_of_the_host",
    "gradients_of_graphed_callables_summed_later",
    "graph_replayed_on_a_stream_that_does_not_wait",
    "graph_replayed_on_two_streams",
    "graph_whose_input_is_refilled_too_early",
    "graph_whose_output_is_read_without_a_join",
    "graph_whose_outputs_are_kept_as_views",
    "graph_with_a_branch_that_does_not_fork",
    "graph_with_a_branch_that_joins_too_early",
    "graph_with_a_download_that_is_read_at_once",
    "graph_with_an_upload_whose_buffer_is_refilled",
    "graphed_callable_called_twice_before_its_outputs_are_compared",
    "pool_of_host_memory_that_waits_for_itself",
    "read_in_a_pool_of_threads_too_early",
    "read_in_another_thread_too_early",
    "refilled_by_another_thread_in_flight",
    "results_handed_to_a_thread_without_an_event",
    "slot_written_by_index_put_while_it_is_loaded",
    "upload_into_a_buffer_of_another_stream",
}
"""Their races are not found."""


def programs_of(module):
    functions = inspect.getmembers(module, inspect.isfunction)
    return [
        function
        for name, function in functions
        if function.__module__ == module.__name__ and not name.startswith("_")
    ]


RIGHT, WRONG = programs_of(right), [*programs_of(wrong), *programs_of(reported)]


@pytest.fixture
def hazards_of(accelerator):
    def hazards_of(program):
        with debubble.as_cuda(), debubble.record(accelerator) as timeline:
            program()
        return timeline.hazards

    return hazards_of


@pytest.mark.parametrize("program", RIGHT, ids=lambda program: program.__name__)
def test_a_right_program_has_no_race(program, hazards_of):
    assert hazards_of(program) == []


@pytest.mark.parametrize("program", WRONG, ids=lambda program: program.__name__)
def test_of_a_wrong_program_both_lines_are_named(program, hazards_of, request):
    if program.__name__ in UNPROVEN:
        request.applymarker(pytest.mark.xfail(strict=True))
    hazards = hazards_of(program)
    assert hazards
    text = inspect.getsource(program)
    for side in ("first", "second"):
        if f"# {side}" in text or f" {side}\n" in text:
            lines = [getattr(hazard, side) for hazard in hazards]
            assert all(line is not None and side in line.text for line in lines), hazards
