"""Crashing code fails one test, with an explanation, and all other tests run."""

import faulthandler
import os
import re

import pytest
import torch

from debubble.accelerator import current
from debubble.exercises.proof.check import check
from debubble.exercises.running import failure_text, own_process
from debubble.exercises.running.processes import forked, one_by_one

from . import crashing
from .crashing import TESTS
from .test_plugin import PLUGIN, in_a_process

pytest_plugins = ["pytester"]

BODY = "    total = 0\n"
"""The line of the stub that tests replace by other code."""
CRASH = "    if 4 in numbers:\n        import ctypes; ctypes.string_at(0)\n    return sum(numbers)"
"""A body of `add_up` that crashes in the first test and passes the second one."""


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """Returns pytest's output for tests in processes of their own whose code ends in many ways.
    Plugins aren't loaded automatically."""
    workbook = crashing.with_many_ends(tmp_path_factory.mktemp("ends"))
    options = ["-v", "--time-limit", "0.5", "-p", "impatient", "--device", current().name]
    return in_a_process(workbook, "katas", *options, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")


@pytest.fixture
def told(output):
    """Returns told(test), which returns the text about a failed test in `output`."""
    failures = output.partition("= FAILURES =")[2].partition("= katas =")[0]
    headings = re.split(r"^_+ (test_.*?) _+$", failures, flags=re.MULTILINE)[1:]
    texts = dict(zip(headings[::2], headings[1::2], strict=True))
    return lambda test: texts[test].strip()


def test_a_segmentation_fault_is_explained_and_names_the_line(told):
    assert told("test_the_code[segfault]").startswith(
        "Expected reads and writes within the memory that the code was given.\n"
        "Your code ended the process that ran it, by signal 11 (segmentation fault): it read or\n"
        "wrote an address that is not its own.\n\n"
        "At katas/tiny/add_up.py:9:\n"
        "    ctypes.string_at(0)\n\n"
        "An address is a number that is not checked."
    )
    assert "\n\nEdit katas/tiny/add_up.py\n" in told("test_the_code[segfault]")


def test_the_same_crash_is_told_once(told):
    again = told("test_the_code[segfault again]")
    assert again.startswith("The same again: Expected reads and writes")
    assert "Edit" not in again


@pytest.mark.parametrize("way", ["segfault", "segfault again"])
def test_a_crash_keeps_what_its_test_had_printed(told, way):
    printed = told(f"test_the_code[{way}]").partition("- Captured stdout call -")[2]
    assert re.findall("here is .*", printed) == [f"here is {way}"]


@pytest.mark.parametrize("code", [0, 3])
def test_an_exit_is_no_success(told, code):
    text = told(f"test_the_code[exit {code}]")
    assert "Expected the code to return, or to raise an exception.\n" in text
    assert f"Your code ended the process that ran it, with exit code {code}.\n" in text


def test_an_abort_is_told_as_damaged_memory(told):
    text = told("test_the_code[abort]")
    assert "by signal 6 (abort): a library found its memory\ndamaged" in text
    assert "At katas/tiny/add_up.py:13:\n    os.abort()\n" in text


def test_memory_running_out_is_told(told):
    assert "Your code was killed (signal 9), as Linux does" in told("test_the_code[kill]")


def test_an_exception_is_quoted_with_its_line(told):
    text = told("test_the_code[raise]")
    assert text.startswith(
        "Your code raised ValueError: no number\n\nAt katas/tiny/add_up.py, line"
    )


def test_code_that_no_signal_reaches_is_stopped(told):
    assert told("test_the_code[loop in C]").startswith(
        "Time limit: add_up was still running after 0.5 s of CPU time, and was stopped.\n\n"
        "At katas/tiny/add_up.py, line 19, in add_up:\n    sum(itertools.repeat(0))\n"
    )


def test_nobody_waits_as_long_for_the_second_loop(told):
    text = told("test_the_code[loop]")
    assert "Time limit: add_up was still running after 0.25 s of CPU time, and was stopped." in text
    assert "At katas/tiny/add_up.py, line 2" in text


def test_a_claim_is_told_as_ever(told):
    claim = (
        "Expected no counting.\nYour code counted 3 times.\n\nSlow.\n\nEdit katas/tiny/add_up.py"
    )
    assert told("test_a_claim") == claim


def test_a_crash_after_a_claim_does_not_hide_it(told):
    assert told("test_a_claim_then_an_abort").startswith("The same again: Expected no counting.")


def test_a_crash_behind_the_end_is_a_failure(told):
    assert "by signal 6 (abort)" in told("test_an_abort_at_the_end")


def test_a_mistake_in_a_test_keeps_its_traceback(told):
    assert 'can only concatenate list (not "int")' in told("test_a_mistake")


def test_a_crash_outside_of_katas_is_explained_too(told):
    assert "ended the process that ran it, by signal 11" in told("test_other")


def test_all_tests_run_and_are_counted(output):
    for test, outcome in {"test_the_code[pass]": "PASSED", "test_a_skip": "SKIPPED"}.items():
        assert re.search(rf"::{re.escape(test)} {outcome}", output)
    assert "· tiny/add_up  not solved: 1 of 14 tests pass" in output
    assert "14 failed, 1 passed, 1 skipped" in output


@pytest.fixture
def marked(workbook, prepared):
    workbook.write("pytest.ini", "[pytest]\n")
    return crashing.mark(workbook)


@pytest.fixture
def run(marked, monkeypatch, request):
    """Returns run(*arguments), which runs pytest in this process on the workbook whose tests have
    processes of their own, and returns its output."""
    monkeypatch.setenv("DEBUBBLE_DEVICE", current().name)
    pytester = request.getfixturevalue("pytester")
    monkeypatch.chdir(marked.root)

    def run(*arguments: str) -> str:
        result = pytester.runpytest_inprocess("katas", *PLUGIN, *arguments)
        return "\n".join([*result.outlines, *result.errlines])

    return run


def processes_of(run, marked, *arguments: str) -> tuple[list[int], int]:
    """Runs both tests with a solution that notes its process. Returns (their process ids, the
    parent's id of the last one)."""
    notes = marked.root / "notes"
    note = f"print(os.getpid(), os.getppid(), file=open({str(notes)!r}, 'a'))"
    marked.edit_stub(BODY, f"    import os; {note}\n    return sum(numbers)\n")
    assert "2 passed" in run(*arguments)
    pids = [[*map(int, line.split())] for line in notes.read_text().splitlines()]
    return [pid for pid, _ in pids], pids[-1][1]


def test_each_test_has_a_process_of_its_own_where_it_costs_little(run, marked):
    pids, server = processes_of(run, marked)
    assert os.getpid() not in pids
    assert len({*pids}) == (2 if current().name == "sim" else 1)
    assert (server == os.getpid()) == (current().name == "sim")
    for pid in {*pids, server} - {os.getpid()}:  # nothing is left behind
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.deep
def test_nobody_waits_for_good_for_a_process_that_says_nothing(run, monkeypatch):
    monkeypatch.setattr(own_process, "_can_fork", lambda config: False)
    for patience in ("TO_START", "TO_SET_UP"):
        monkeypatch.setattr(one_by_one, patience, 0.0)
    monkeypatch.setattr(one_by_one, "far_limit", lambda seconds: seconds)
    text = run("--impl", "solutions", "--time-limit", "0.01")  # no interpreter starts that fast
    assert "2 failed" in text
    assert "said nothing for 0.01 s, although the test's call may take 0.01 s: it was ended" in text


@pytest.mark.sim
def test_a_wait_in_c_that_never_ends_is_stopped(run, marked, monkeypatch):
    for module in (forked, failure_text):
        monkeypatch.setattr(module, "far_limit", lambda seconds: 0.5)
    lock = "c.pthread_mutex_lock(mutex)"
    code = f"import ctypes; c, mutex = ctypes.CDLL(None), bytes(64); {lock}; {lock}"
    marked.edit_stub(BODY, f"    {code}\n{BODY}")
    text = run()
    assert "Time limit: add_up was still waiting after 0.5 s, and was stopped." in text
    assert "mutex)\n" in text and "Does it wait there for what never comes?" in text


def test_a_timer_of_this_process_holds_no_other_one_up(run, monkeypatch):
    """Tests in processes of their own run while this process has a faulthandler timer, as is used
    to end unattended processes that hang."""
    monkeypatch.setattr(forked, "TO_SET_UP", 20.0)
    faulthandler.dump_traceback_later(600)
    try:
        assert "2 passed" in run("--impl", "solutions", "--time-limit", "5")
    finally:
        faulthandler.cancel_dump_traceback_later()


def test_under_a_debugger_tests_stay_where_it_is(run, marked):
    pids, _ = processes_of(run, marked, "--pdb")
    assert {*pids} == {os.getpid()}


def test_what_a_neighbour_has_set_up_is_torn_down(run, marked):
    marked.edit(TESTS, crashing.MARK, "")
    marked.write(
        "katas/tiny/test_before.py",
        """
        import pytest


        @pytest.fixture(scope="module", autouse=True)
        def shared():
            yield
            print("shared is torn down")


        def test_in_this_process():
            pass


        @pytest.mark.own_process
        def test_in_its_own():
            pass
        """,
    )
    text = run("--impl", "solutions", "-s")
    assert "4 passed" in text and "error" not in text
    assert text.count("shared is torn down") == 1


@pytest.mark.deep
def test_workers_of_xdist_go_on_after_a_crash(marked):
    pytest.importorskip("xdist")
    marked.edit_stub(BODY, f"{CRASH}\n")
    text = in_a_process(marked, "katas", "--device", current().name, PYTEST_ADDOPTS="-n 1")
    assert "by signal 11 (segmentation fault)" in text
    assert "· tiny/add_up  not solved: 1 of 2 tests pass" in text
    assert "worker 'gw" not in text  # xdist's text for a crashed worker


@pytest.fixture
def problems(marked, monkeypatch):
    """Returns problems(), which runs `check` on the workbook whose tests have processes of their
    own, and returns the failed claims as "subject: problem"."""
    monkeypatch.setenv("DEBUBBLE_DEVICE", current().name)
    marked.edit("tests/wrong_attempts/tiny/add_up/forgets_one.py", "returned 5", "returned 6")
    marked.edit("tests/wrong_attempts/tiny/add_up/returns_text.py", "'6'", "'7'")

    def problems() -> list[str]:
        verdicts = check(marked.catalogue, current().name)
        return [f"{v.subject}: {v.problem}" for v in verdicts if not v.holds]

    return problems


def test_stubs_and_attempts_that_crash_are_told_why(problems, marked):
    in_the_second = "        if numbers[-1] == 3:\n            import ctypes; ctypes.string_at(0)\n"
    marked.edit("solutions/tiny/before.py", "        counter.append(number)\n", in_the_second)
    marked.files.write_all()
    for name in ("reads_null", "reads_null_too"):
        marked.attempt(name, ["test_the_sum_is_right"], "signal 11 (segmentation fault)", CRASH)
    assert problems() == []


@pytest.mark.deep
def test_an_attempt_that_crashes_in_another_test_is_found(problems, marked):
    body = CRASH.replace("4 in", "3 in")
    marked.attempt("forgets_one", ["test_the_sum_is_right"], "returned 6", body)
    found = problems()
    assert len(found) == 1
    assert "test_the_sum_is_right passes on tests/wrong_attempts/tiny/add_up/forgets_" in found[0]


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("stray", "words"),
    [
        (
            "kept = torch.zeros(4); store[(1,)](kept.data_ptr())",
            ["illegal memory access", "is a number that is not"],
        ),
        (
            "kept = torch.zeros(4); store[(1,)](kept.data_ptr()); torch.cuda.synchronize()",
            ["illegal memory access", r"At kernel\.py(:|, line )15\b"],
        ),
        (
            "kept = torch.zeros(4, device='cuda'); store[(1,)](kept.data_ptr() + 4)",
            ["misaligned address", "multiples of 8"],
        ),
    ],
    ids=["unnoticed", "noticed", "misaligned"],
)
def test_a_stray_kernel_leaves_the_context_of_this_process_alone(
    run, marked, accelerator, stray, words
):
    ours = torch.ones(4, device=accelerator.device)
    text = run("--impl", crashing.kernel(marked, stray))
    for part in words:
        assert re.search(part, text)
    assert "1 of 2 tests pass" in text
    assert (ours + torch.ones(4, device=accelerator.device)).sum().item() == 8
