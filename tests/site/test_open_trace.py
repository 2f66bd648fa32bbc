"""The page on which a trace is dropped: JavaScript finds what Python finds, and nothing is sent."""

from __future__ import annotations

import base64
import time
from pathlib import Path

import pytest

from debubble.timeline import TraceFileError
from debubble.traces.reading import read_trace
from debubble.traces.summary import NOTES, summarize
from tests.traces.handmade import Handmade
from tests.traces.test_findings import gap, slow_launches, steps
from tests.traces.test_mutated import mutated, whole
from tests.traces.test_reading import of_amd, refusals, two_kernels

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
REAL = [*sorted((ROOT / "tests/traces/h100").glob("*.json.gz")), *ROOT.glob("docs/examples/*.gz")]
REAL = [path for path in REAL if "recording" not in path.name]
WITHIN_US = 0.002
MOST_SECONDS = 5


def two_devices() -> Handmade:
    made = two_kernels()
    made.device("kernel", "of the other", made.call("cudaLaunchKernel", 300), 310, 5)
    made.events[-1]["args"]["device"] = 1
    return made


def bare_graph() -> Handmade:
    made = Handmade()
    made.kernel(made.call("cudaLaunchKernel", 0), 10, 10)
    made.call("cudaGraphLaunch", 20, 5)
    made.kernel(made.call("cudaLaunchKernel", 30), 500, 10)
    return made


def two_threads() -> Handmade:
    made = Handmade()
    made.op("aten::add", 0, 50, thread=77, **{"External id": 5})
    made.kernel(made.call("cudaLaunchKernel", 10, thread=123456, **{"External id": 5}), 30, 5)
    made.launched(60, 90, 30)
    made.call("cudaStreamSynchronize", 95, 40, thread=77)
    made.launched(150, 170, 5, op="aten::mul")
    return made


def without_time() -> Handmade:
    made = two_kernels()
    made.device("kernel", "lost", made.call("cudaLaunchKernel", 300), 0, 0)
    made.events[-1]["ts"] = 0
    return made


def same_numbers() -> Handmade:
    made = Handmade()
    made.kernel(made.call("cudaLaunchKernel", 0), 10, 5)
    made.correlation = 0
    made.kernel(made.call("cudaLaunchKernel", 1000), 1010, 5)
    return made


def loading() -> Handmade:
    def between(made):
        made.host("user_annotation", "enumerate(DataLoader)#_next", 100, 99)
        made.function("data.py(12): resize", 101, 97)

    return gap(between)


def late_stream() -> Handmade:
    made = Handmade()
    calls = [made.call("cudaLaunchKernel", at) for at in (0, 5)]
    made.kernel(calls[0], 30, 70)
    return made.kernel(calls[1], 9000, 50, stream=20)


MADE = {
    "python": lambda: gap(lambda made: made.function("model.py(3): forward", 100, 99)),
    "malloc": lambda: gap(lambda made: made.call("cudaMalloc", 100, 99)),
    "lock": lambda: gap(lambda made: made.function("threading.py(637): wait", 100, 99)),
    "loader": lambda: gap(
        lambda made: made.host("user_annotation", "enumerate(DataLoader)#_next", 100, 99)
    ),
    "a wait": lambda: gap(lambda made: made.call("cudaStreamSynchronize", 50, 55)),
    "code of a loader": loading,
    "late stream": late_stream,
    "slow launches": slow_launches,
    "late for another reason": lambda: slow_launches(late=50),
    "of AMD": of_amd,
    "steps": lambda: steps([100, 100, 200, 100], True),
    "all kinds": whole,
    "two devices": two_devices,
    "bare graph": bare_graph,
    "two threads": two_threads,
    "without time": without_time,
    "same numbers": same_numbers,
}

ANALYZE = """async (text) => {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  try {
    const { state, ...found } = await analyze(new Blob([bytes]));
    return { ...found, lanes: state.facts.after.lanes };
  } catch (error) {
    return { refused: error.message, expected: error instanceof Damaged };
  }
}"""


@pytest.fixture(scope="module")
def analyze(browser):
    """Returns analyze(bytes), the findings of the page's JavaScript, or why it refuses."""
    from debubble.views.dropped.facts import module

    page = browser.new_page()
    page.add_script_tag(content=f"{module('analyze.js')}\nwindow.analyze = analyze;")
    return lambda content: page.evaluate(ANALYZE, base64.b64encode(content).decode())


def place_of(place: dict) -> tuple:
    return tuple(place[key] for key in ("cause", "file", "line", "function", "operator", "times"))


def held_to_python(found: dict, path: Path) -> None:
    trace = read_trace(path)
    summary = summarize(trace)
    known = summary.as_json()
    assert "refused" not in found, found
    assert found["label"] == known["label"] and found["counts"] == known["counts"]
    assert found["notes"] == known["notes"][: len(found["notes"])]
    assert len(known["notes"]) - len(found["notes"]) <= 1  # That of predictions.
    for key in ("span_us", "busy_us", "idle_us", "not_known_us", "idle_by_cause_us"):
        assert found[key] == pytest.approx(known[key], abs=WITHIN_US), key
    places = {place_of(place): place["idle_us"] for place in found["places"]}
    expected = {place_of(place): place["idle_us"] for place in known["places"]}
    assert len(places) == len(found["places"]) == len(summary.findings.places)
    assert expected.items() and {key: places[key] for key in expected} == pytest.approx(
        expected, abs=WITHIN_US
    )
    lanes = {event.lane for event in trace.timeline.events}
    assert set(found["lanes"]) == lanes


def test_there_are_twenty_files():
    assert len(REAL) + len(MADE) >= 20
    assert len(REAL) >= 8


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name.split(".json")[0])
def test_real_traces_have_pythons_findings(analyze, path):
    held_to_python(analyze(path.read_bytes()), path)


@pytest.mark.parametrize("name", MADE)
def test_made_traces_have_pythons_findings(analyze, tmp_path, name):
    path = MADE[name]().save(tmp_path / "trace.json")
    found = analyze(path.read_bytes())
    held_to_python(found, path)


@pytest.mark.parametrize("what", refusals())
def test_what_python_refuses_the_page_refuses(analyze, what):
    text, _ = refusals()[what]
    found = analyze(text.encode())
    assert found.get("expected"), found
    assert 0 < len(found["refused"]) < 300


def test_damaged_traces_are_refused_or_read(analyze, tmp_path):
    path, same = tmp_path / "trace.json", 0
    for seed in range(300):
        path.write_bytes(mutated(seed))
        found = analyze(path.read_bytes())
        if "refused" in found:
            assert found["expected"], (seed, found)
            continue
        assert 0 <= found["idle_us"] <= found["span_us"] * 1.001 + 0.01, seed
        try:
            known = summarize(read_trace(path))
        except TraceFileError:
            continue
        assert found["idle_us"] == pytest.approx(known.findings.idle, abs=WITHIN_US), seed
        same += 1
    assert same > 60


@pytest.fixture(scope="module")
def site(written):
    """Returns the folder of a site that has only the page for traces."""
    from scripts.site import docs, front

    return written([front.page(ROOT, []), docs.page_of(ROOT / "docs/open_your_trace.md")])


@pytest.fixture
def page(opened):
    """Returns the page. Checks at the end that it logged nothing and asked for nothing."""
    page = opened("index.html")
    page.get_by_role("link", name="Open your trace").last.click()
    return page


def drop(page, path: Path) -> None:
    page.locator("[data-trace] input[type=file]").set_input_files(path)


def test_a_dropped_trace_is_shown(page):
    drop(page, ROOT / "docs/examples/loader.trace.json.gz")
    page.locator(".trace canvas").first.wait_for()
    assert (
        "the device was idle for 97.4% of 27.75 ms"
        in page.locator(".trace > [role=status]").inner_text()
    )
    causes, places = page.locator(".trace .scrolls table").all()
    assert "38.6% the host: waiting for a data loader" in " ".join(causes.inner_text().split())
    assert "programs.py:86: def step" in places.inner_text()
    assert NOTES["stacks"] in page.locator(".trace ul").last.inner_text()


def test_the_example_is_shown_and_going_back_names_no_file(page):
    page.get_by_role("button", name="Try an example").click()
    page.locator(".trace canvas").first.wait_for()
    words = page.locator(".trace > [role=status]").inner_text()
    assert words.startswith("loader.trace.json.gz") and "idle for 97.4% of 27.75 ms" in words
    drop(page, ROOT / "docs/examples/loader.trace.json.gz")
    page.get_by_role("link", name="debubble", exact=True).click()
    page.wait_for_url("**/index.html")
    page.go_back()
    chooser = page.locator("[data-trace] input[type=file]")
    has_report = page.locator(".trace canvas").count() > 0
    assert bool(chooser.input_value()) is has_report


def test_a_file_that_is_no_trace_is_one_sentence(page, tmp_path):
    path = tmp_path / "notes.json"
    path.write_text("[1, 2]")
    drop(page, path)
    page.get_by_text("notes.json is not a trace that can be read: it is a list").wait_for()
    drop(page, ROOT / "docs/examples/loader.trace.json.gz")
    page.locator(".trace canvas").first.wait_for()


@pytest.mark.deep
def test_the_first_picture_of_100_mb_comes_within_five_seconds(page, tmp_path):
    from tests.traces.repeated import repeat

    path = tmp_path / "large.json"
    repeat(ROOT / "tests/traces/h100/training.kept.json.gz", path, 100)
    began = time.monotonic()
    drop(page, path)
    page.locator(".trace canvas").first.wait_for()
    assert time.monotonic() - began < MOST_SECONDS
