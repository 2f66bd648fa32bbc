"""The names of the common checks, and of the tests that they are."""

TESTS = {
    "steps": "test_steps_one_after_another",
    "stream": "test_on_another_stream",
    "results": "test_results_stay_as_they_are",
    "objects": "test_the_caller_may_change_its_objects",
    "memory": "test_nothing_is_kept_of_each_call",
    "launches": "test_launches_do_not_grow",
    "work": "test_the_work_of_the_host_grows_with_the_step",
    "pinning": "test_it_works_where_memory_cannot_be_pinned",
}
"""The test of each check, by the name by which a kata leaves the check out in katas.toml."""
EVERY = "all"
"""The name by which a kata leaves out all checks."""
