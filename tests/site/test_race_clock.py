"""The clock of the race's page, in JavaScript, does what sim does."""

from __future__ import annotations

import random

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

BATCHES = 12
PROGRAMS = 20
"""The number of programs in a batch."""
WITHIN_US = 0.1


@pytest.fixture(scope="module")
def clock(browser):
    """Returns clock(text), which runs a program by the page's clock."""
    from debubble.views.race.facts import with_facts

    page = browser.new_page()
    page.add_script_tag(content=f"{with_facts('simulate.js')}\nwindow.simulate = simulate;")
    yield lambda text: page.evaluate(ROWS, text)
    page.close()


ROWS = """(text) => {
  const { events, bubbles } = simulate(text);
  return {
    events: events.map((e) => [e.kind, e.name, e.lane, e.line, e.copyKind, e.launchedBy]),
    times: events.map((e) => [e.start, e.duration]),
    bubbles: bubbles.map((b) => [b.cause, b.line, b.start, b.end]),
  };
}"""


def held_to_sim(clock, text: str) -> None:
    import debubble

    from .race_on_sim import record, rows

    page, sim = clock(text), rows(record(text, debubble.accelerator("sim")))
    assert page["events"] == sim["events"], text
    for own, theirs in zip(page["times"], sim["times"], strict=True):
        assert own == pytest.approx(theirs, abs=WITHIN_US), text
    assert [b[:2] for b in page["bubbles"]] == [b[:2] for b in sim["bubbles"]], text
    for own, theirs in zip(page["bubbles"], sim["bubbles"], strict=True):
        assert own[2:] == pytest.approx(theirs[2:], abs=WITHIN_US), text


def test_the_ready_pairs_run_as_on_sim(clock):
    from debubble.views.race.facts import pairs

    for pair in pairs():
        held_to_sim(clock, pair["before"])
        held_to_sim(clock, pair["after"])


@pytest.mark.deep
@pytest.mark.parametrize("batch", range(BATCHES))
def test_programs_drawn_at_random_run_as_on_sim(clock, batch):
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    for _ in range(PROGRAMS):
        held_to_sim(clock, "\n".join(block(draw, depth=0, in_graph=False)))


def test_a_full_queue_holds_the_host_as_on_sim(clock):
    held_to_sim(clock, "sleep 20 ms\nrepeat 550\n  kernel\n  kernel\nitem")


def block(draw: random.Random, depth: int, in_graph: bool) -> list[str]:
    """Returns the lines of a program or of a block."""
    lines: list[str] = []
    for _ in range(draw.randint(1, 5)):
        lines += statement(draw, depth, in_graph)
    return lines


def statement(draw: random.Random, depth: int, in_graph: bool) -> list[str]:
    blocks = ["repeat"] if in_graph else ["repeat", "repeat", "stream", "stream", "graph"]
    if depth < 3 and draw.random() < 0.25:
        word = draw.choice(blocks)
        head = {"repeat": f"repeat {draw.randint(1, 4)}", "graph": "graph"}.get(
            word, f"stream {draw.randint(1, 3)}"
        )
        inner = block(draw, depth + 1, in_graph or word == "graph")
        return [head, *(f"  {line}" for line in inner)]
    simple = [
        "kernel",
        f"matmul {draw.choice([64, 128, 256])}",
        f"sleep {draw.randint(0, 400)} us",
        f"upload pinned {draw.randint(1, 4096)} KiB",
        f"download {draw.randint(1, 2000)} KiB",
    ]
    name = draw.choice("ab")
    hosts = [
        f"upload pageable {draw.choice([1, 100, 2048, 2049, 4000])} KiB",
        f"python {draw.randint(0, 300)} us",
        "item",
        "synchronize",
    ]
    if in_graph:
        return [draw.choice(simple)]
    if draw.random() < 0.15:
        return [f"event {name}", *statement(draw, depth, in_graph), f"wait {name}"]
    return [draw.choice(simple + hosts)]
