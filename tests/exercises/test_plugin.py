"""The pytest plugin as a learner sees it: header, failures, summary, options."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
CHECKOUT = Path(__file__).resolve().parents[2]
WITHOUT = ["-p", "no:cacheprovider", "-p", "no:nbval"]
"""pytest's options that switch off two plugins; nbval alone takes a second or two to import."""
PLUGIN = ["-p", "debubble.exercises.plugin", *WITHOUT]
"""pytest's options that load our plugin, since the tiny workbook has no conftest for it."""


@pytest.fixture
def run(workbook, monkeypatch, request):
    """Returns run(*arguments), which runs pytest in this process on the tiny workbook, and returns
    its output."""
    pytester = request.getfixturevalue("pytester")
    monkeypatch.chdir(workbook.root)
    workbook.write("pytest.ini", "[pytest]\n")

    def run(*arguments: str) -> str:
        command = ["katas", *PLUGIN, *arguments]
        result = pytester.runpytest_inprocess(*command, no_reraise_ctrlc=True)
        return "\n".join([*result.outlines, *result.errlines])

    return run


def in_a_process(workbook, *arguments: str, **environment: str) -> str:
    """Runs pytest on the workbook in a new process, with the conftest of the real checkout, and
    returns its output."""
    workbook.write("conftest.py", (CHECKOUT / "conftest.py").read_text())
    workbook.write("pytest.ini", "[pytest]\n")
    command = [sys.executable, "-m", "pytest", *WITHOUT, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), **environment}
    result = subprocess.run(
        command, cwd=workbook.root, env=environment, capture_output=True, text=True, timeout=280
    )
    return result.stdout + result.stderr


def test_the_header_says_where_and_whose(run):
    text = run()
    assert "accelerator: " in text
    assert "code under test: yours (--impl solutions tests ours)" in text


def test_a_failure_is_the_diagnosis_and_no_traceback(run):
    text = run()
    assert "Expected no counting.\nYour code counted 3 times.\n\nSlow.\n\nEdit katas/tiny/" in text
    assert "Traceback" not in text and "raise KataFailure" not in text


def test_the_summary_says_what_is_next(run):
    text = run()
    assert "· tiny/add_up  not solved: 1 of 2 tests pass" in text
    assert "run   pytest katas/tiny/test_add_up.py" in text
    assert "FAILED" not in text


@pytest.mark.parametrize(("name", "says"), [("sum", "✔"), ("count", "·")])
def test_of_a_single_test_it_is_said_whether_it_passes(run, name, says):
    passed, verdict = (1, "") if says == "✔" else (0, "not solved: ")
    assert f"{says} tiny/add_up  {verdict}{passed} of 1 test passes" in run("-k", name)


def test_solutions_are_tested_on_request(run):
    text = run("--impl", "solutions")
    assert "code under test: our solutions, not yours" in text
    assert "✔ tiny/add_up  2 of 2 tests pass" in text
    assert "Next:" not in text


def test_a_file_is_tested_on_request(run):
    text = run("--impl", "tests/wrong_attempts/tiny/add_up/forgets_one.py")
    assert "Your code returned 5." in text
    assert "This is tests/wrong_attempts/tiny/add_up/forgets_one.py, not your code." in text


def test_a_solved_kata_is_praised(run, workbook):
    workbook.edit_stub("        counter.append(number)\n", "")
    text = run()
    assert "1 of 1 solved." in text and "Solved: Add up." in text and "All solved." in text


def test_of_one_kata_among_others_the_next_is_named(run, workbook):
    workbook.edit_stub("        counter.append(number)\n", "")
    entry = workbook.catalogue.file.read_text()
    workbook.write("katas/katas.toml", entry + entry.replace('"add_up"', '"add_more"'))
    text = run()
    assert "Next: Add up, chapter 00." in text
    assert "run   pytest katas/tiny/test_add_more.py" in text
    assert "1 of 2 solved." in text and "All solved" not in text


@pytest.mark.parametrize(
    "cheat",
    [
        "from solutions.tiny.add_up import add_up as ours",
        "import solutions.tiny.add_up as ours",
        "ours = __import__('importlib').import_module('solutions.tiny.add_up')",
    ],
)
def test_our_solution_is_no_answer(run, workbook, cheat):
    workbook.edit_stub("    total = 0\n", f"    {cheat}\n    total = 0\n")
    text = run()
    assert "· tiny/add_up  not solved: 0 of 2 tests pass" in text
    refusal = "\nkatas/tiny/add_up.py, line 17 takes our solution:\n\n    "
    assert f"{refusal}{cheat}\n\nThe exercise is to write it" in text
    assert "✔ tiny/add_up" in run("--impl", "solutions")


OWN_END = "Expected your code to return or raise an error of its own.\nYour code raised "


@pytest.mark.parametrize("end", ["skip('not today')", "xfail('never')", "exit('done', 0)"])
def test_code_can_not_decide_that_its_test_is_over(run, workbook, end):
    workbook.edit_stub("    total = 0\n", f"    import pytest; pytest.{end}\n    total = 0\n")
    text = run()
    assert "· tiny/add_up  not solved: 0 of 2 tests pass" in text
    assert f"{OWN_END}pytest's " in text
    assert f"    import pytest; pytest.{end}" in text


def test_code_can_not_skip_its_test_as_unittest_does(run, workbook):
    skip = "import unittest; raise unittest.SkipTest"
    workbook.edit_stub("    total = 0\n", f"    {skip}\n    total = 0\n")
    text = run()
    assert "· tiny/add_up  not solved: 0 of 2 tests pass" in text
    assert f"{OWN_END}unittest's SkipTest, which ends the test.\n" in text


def test_edited_tests_are_said_and_run_all_the_same(run, workbook):
    test = workbook.root / "katas/tiny/test_add_up.py"
    assert "has been edited" not in run()
    test.write_text(test.read_text().partition("def test_")[0] + "def test_it(kata):\n    pass\n")
    text = run()
    assert "1 of 1 test passes" in text
    assert "katas/tiny/test_add_up.py has been edited, its verdict is not ours: `git" in text


@pytest.mark.parametrize("options", [[], ["--impl", "solutions"]], ids=["stub", "solution"])
def test_a_kata_whose_run_is_stopped_is_not_solved(run, workbook, options):
    test = workbook.kata.test_path
    test.write_text(test.read_text().replace("    counter = []\n", "    raise KeyboardInterrupt\n"))
    text = run(*options)
    assert "· tiny/add_up  not solved: 1 of 2 tests pass" in text
    assert "All solved" not in text and "1 of 1" not in text
    unfinished = "Next: Add up. Nothing failed, but not all of its tests ran to the end."
    assert (unfinished in text) == (not options)


def test_a_test_that_may_fail_for_once_has_not_passed(run, workbook):
    test = workbook.kata.test_path
    marked = "    import pytest; request.node.add_marker(pytest.mark.xfail); assert 0\n"
    text = test.read_text().replace("counts_nothing(kata", "counts_nothing(kata, request")
    test.write_text(text.replace("    counter = []\n", marked))
    assert "· tiny/add_up  not solved: 1 of 2 tests pass" in run()


def test_a_test_that_this_machine_cannot_run_keeps_no_kata_unsolved(run, workbook):
    workbook.edit_stub("total += number", "total = total + number")
    test = workbook.kata.test_path
    skip = "    import pytest; pytest.skip('no GPU')\n"
    test.write_text(test.read_text().replace("    counter = []\n", skip))
    text = run()
    assert "✔ tiny/add_up  1 of 1 test passes, 1 skipped" in text
    assert "All solved" in text


def test_a_test_that_passes_and_cannot_be_torn_down_counts_once(run, workbook):
    test = workbook.kata.test_path
    fixture = "@pytest.fixture(autouse=True)\ndef after():\n    yield\n    assert 0\n"
    test.write_text(f"import pytest\n\n\n{fixture}\n\n{test.read_text()}")
    assert "· tiny/add_up  not solved: 0 of 2 tests pass" in run()


def test_an_exception_is_short_and_underlines_its_place(run, workbook):
    workbook.edit_stub("total += number", "total += number / 0 + 1")
    text = run()
    assert (
        "Your code raised ZeroDivisionError: division by zero\n\n"
        "At katas/tiny/add_up.py, line 20, in add_up:\n"
        "    total += number / 0 + 1\n"
        "             ^^^^^^^^^^\n"
    ) in text
    assert "under_test.py" not in text


def test_a_test_that_passes_against_its_mark_is_pytests_to_explain(run, workbook):
    test = workbook.kata.test_path
    marked = "@pytest.mark.xfail(strict=True)\ndef test_the_sum"
    test.write_text("import pytest\n" + test.read_text().replace("def test_the_sum", marked))
    text = run()
    assert "[XPASS(strict)]" in text
    assert "INTERNALERROR" not in text


def test_the_same_failure_is_told_once(run, workbook):
    workbook.edit_stub("total = 0", "total = (0")
    text = run()
    assert text.count("Python cannot read katas/tiny/add_up.py") == 2
    assert "The same again: Python cannot read" in text


def test_a_changed_signature_is_told(run, workbook):
    workbook.edit_stub("counter: list[int])", "counter: list[int], more: int)")
    text = run()
    assert "The test could not call your code: TypeError: add_up() missing 1" in text
    assert "Keep the names and the parameters" in text


def test_an_endless_loop_names_the_kata_and_the_line(run, workbook):
    workbook.edit_stub("total = 0", "while True:\n        total = 0")
    text = run("--time-limit", "0.2")
    assert "Time limit: add_up was still running after 0.2 s of CPU time, and was stopped." in text
    assert "At katas/tiny/add_up.py, line 1" in text
    assert "--time-limit SECONDS" in text


def test_a_kata_has_a_limit_of_its_own(run, workbook):
    workbook.edit_stub("total = 0", "while True:\n        total = 0")
    workbook.edit("katas/katas.toml", "stub_fails", "time_limit = 0.3\nstub_fails")
    assert "add_up was still running after 0.3 s of CPU time" in run()


def test_with_full_trace_pytest_shows_everything(run):
    assert "raise KataFailure" in run("--full-trace")


def test_a_mistake_in_a_test_keeps_its_traceback(run, workbook):
    workbook.edit("katas/tiny/test_add_up.py", "counter = []", "counter = [] + 1")
    assert 'can only concatenate list (not "int")' in run()


def test_of_many_unsolved_katas_one_is_shown(run, workbook):
    catalogue = (workbook.root / "katas" / "katas.toml").read_text()
    second = catalogue.replace('name = "add_up"', 'name = "add_more"').replace("Add up", "Add more")
    workbook.write("katas/katas.toml", second + catalogue)
    test = (workbook.root / "katas" / "tiny" / "test_add_up.py").read_text()
    workbook.write("katas/tiny/test_add_more.py", test)
    workbook.files.write_all()
    text = run("--all")
    assert "Next: Add more." in text and "Edit katas/tiny/add_more.py" in text
    assert "Edit katas/tiny/add_up.py" not in text
    assert "-v also shows the failures of the other katas" in text
    assert text.index("tiny/add_more ") < text.index("tiny/add_up ")  # the catalogue's order
    text = run("--all", "-v")
    assert text.count("Edit katas/tiny/add_up.py") == 1 and "FAILED katas" not in text


@pytest.fixture
def two(workbook):
    """Returns the workbook with two katas, a second one added; both stubs are unedited."""
    catalogue = (workbook.root / "katas" / "katas.toml").read_text()
    second = catalogue.replace('name = "add_up"', 'name = "add_more"').replace("Add up", "Add more")
    second = second.replace('chapter = "00"', 'chapter = "01"')
    workbook.write("katas/katas.toml", catalogue + second)
    workbook.write("katas/tiny/test_add_more.py", workbook.kata.test_path.read_text())
    workbook.files.write_all()
    return workbook


def test_a_run_stops_at_the_first_kata_that_is_not_solved(run, two):
    text = run()
    assert "1 failed, 1 passed" in text and "test_add_more" not in text
    assert "Stopped at the first kata that is not solved: --all runs the rest." in text
    assert " 00 tiny         ·             0 of 1\n 01 tiny" in text and "0 of 2 solved." in text


def test_a_run_passes_over_an_optional_kata_that_is_not_begun(run, two):
    two.edit("katas/katas.toml", 'name = "add_up"\n', 'name = "add_up"\noptional = true\n')
    text = run()
    assert "test_add_up.py" not in text and "tiny/add_more  not solved" in text
    assert "1 failed, 1 passed" in run("katas/tiny/test_add_up.py")
    two.edit_stub("total = 0", "total = 1")
    assert "tiny/add_up  not solved" in run()


def test_it_stops_at_one_that_was_edited_and_fails(run, two):
    two.edit_stub("total = 0", "total = 1")
    two.edit("katas/tiny/add_more.py", "        counter.append(number)\n", "")
    text = run()
    assert "2 failed in" in text and "Stopped at the first kata" in text


def test_a_kata_whose_tests_are_gone_holds_up_nobody(run, two):
    two.kata.test_path.unlink()
    text = run()
    assert "tiny/add_more  not solved: 1 of 2 tests pass" in text
    gone = "katas/tiny/test_add_up.py is gone, and its kata is not tested: `git checkout katas/"
    assert gone in text and "edited" not in text


def test_a_kata_that_is_named_runs_regardless(run, two):
    text = run("katas/tiny/test_add_more.py")
    assert "2 failed, 2 passed" in text


def test_of_katas_nobody_has_begun_one_test_runs_with_all(run, two):
    text = run("--all")
    assert "2 failed, 1 passed, 1 deselected" in text and "Stopped" not in text


def test_whoever_only_looks_sees_all_tests(run, two):
    assert "4 tests collected" in run("--collect-only", "-q")


def test_what_was_solved_counts_in_later_runs(run, two):
    two.edit_stub("        counter.append(number)\n", "")
    assert "1 of 2 solved." in run()
    two.write("my/katas/tiny/add_more.py", (two.root / "katas/tiny/add_more.py").read_text())
    text = run("-k", "add_more")
    assert "Edit my/katas/tiny/add_more.py" in text and "1 of 2 solved." in text
    kinds = (two.root / "my" / "progress.jsonl").read_text().count('"attempt"')
    assert kinds == 1  # no attempt is recorded for an unedited kata


def test_an_attempt_is_a_run_of_all_tests_on_the_learners_code(run, workbook):
    workbook.edit_stub("        counter.append(number)\n", "")
    for options in (["-k", "sum"], ["--impl", "solutions"]):
        assert "pass" in run(*options) and not (workbook.root / "my").exists()
    run()
    assert '"verdict": "passed"' in (workbook.root / "my" / "progress.jsonl").read_text()


def test_whoever_has_solved_it_reads_what_ours_does(run, workbook):
    more = 'differs = "It calls sum."\ntry_this = "a million numbers"\nstub_fails'
    workbook.edit("katas/katas.toml", "stub_fails", more)
    workbook.edit_stub("        counter.append(number)\n", "")
    text = run()
    assert (
        "Solved: Add up.\n  It calls sum.\n  Now try: a million numbers\n  ours  debubble" in text
    )


def test_a_run_that_cannot_be_remembered_says_so(run, workbook):
    workbook.edit_stub("total = 0", "total = 1")
    workbook.write("my", "a file")
    text = run()
    assert "This run is not recorded: my/progress.jsonl can't be" in text
    assert "INTERNALERROR" not in text


@pytest.mark.parametrize(
    "options, sentence",
    [
        (["--impl", "nowhere.py"], "--impl nowhere.py: there is no such file"),
        (["--device", "tpu"], "invalid choice: 'tpu'"),
    ],
)
def test_a_wrong_option_is_a_sentence(run, options, sentence):
    text = run(*options)
    assert sentence in text and "Traceback" not in text


def test_a_test_of_no_kata_cannot_ask_for_one(run, workbook):
    workbook.write("katas/tiny/test_other.py", "def test_other(kata):\n    pass\n")
    assert "is not the test of a kata in katas.toml" in run()


@pytest.mark.deep(2)
@pytest.mark.parametrize("options", [[], ["-p", "debubble.exercises.plugin"]])
def test_a_checkout_needs_no_installation(workbook, options):
    text = in_a_process(workbook, "katas", "-q", *options, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    assert "1 of 2 tests pass" in text and "1 failed, 1 passed" in text


@pytest.mark.deep
def test_workers_of_xdist_stop_loops_and_teach_as_well(workbook):
    pytest.importorskip("xdist")
    workbook.edit_stub("total = 0", "while True:\n        total = 0")
    text = in_a_process(workbook, "katas", "-n", "1", "--time-limit", "0.2")
    assert "Time limit: add_up was still running after 0.2 s of CPU time, and was stopped." in text
    assert "code under test: yours" in text
    assert "· tiny/add_up  not solved: 0 of 2 tests pass" in text


def test_a_host_sync_that_the_guard_forbids_is_a_lesson(run, workbook):
    workbook.edit(
        "katas/tiny/test_add_up.py",
        "    kata.add_up([1, 2, 3], counter)",
        "    with debubble.no_host_syncs():\n"
        "        kata.add_up(torch.ones(3, device=accelerator.device), counter)",
    )
    workbook.edit(
        "katas/tiny/test_add_up.py", "counts_nothing(kata", "counts_nothing(kata, accelerator"
    )
    workbook.edit(
        "katas/tiny/test_add_up.py",
        "from debubble.exercises",
        "import torch\n\nimport debubble\nfrom debubble.exercises",
    )
    workbook.edit_stub("total += number", "total += number.item()")
    text = run()
    assert "Your code raised HostSyncError" in text
    assert "    total += number.item()" in text


def test_a_kata_that_is_not_begun_is_begun_by_a_command(run, workbook):
    assert "  begin debubble next add_up" in run()
    workbook.edit_stub("total = 0", "total = 1")
    assert "  edit  katas/tiny/add_up.py" in run()


def test_an_exercise_that_passes_untouched_is_not_counted_and_this_is_said(run, workbook):
    test = workbook.root / "katas" / "tiny" / "test_add_up.py"
    test.write_text("def test_it_counts_nothing(kata):\n    pass\n")
    text = run()
    assert "add_up passes although you have not begun it: it is not counted as solved." in text
    assert "0 of 1 solved." in text and "Solved: " not in text


@pytest.mark.deep
def test_a_timeline_is_drawn_in_ascii_where_nothing_else_can_be_printed(workbook):
    workbook.write(
        "katas/tiny/test_add_up.py",
        "from debubble.exercises import Diagnosis, KataFailure\n\n\n"
        "def test_it_counts_nothing(kata):\n"
        "    assert kata.add_up\n"
        "    raise KataFailure(Diagnosis('a', 'b', drawing='stream 0 ┊  ███ 5 µs'))\n",
    )
    text = in_a_process(workbook, "katas", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert "stream 0 :  ### 5 us" in text
