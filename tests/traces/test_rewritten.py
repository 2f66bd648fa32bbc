"""Traces written in another way: with the same content the same findings, else a sentence."""

import gzip
import json
import random
import time
from collections.abc import Callable

import pytest

from debubble.traces.reading import read_trace
from debubble.traces.summary import summarize

from .test_mutated import opened, whole

FILES, IN_A_PART = 1000, 100
MOST_SECONDS = 5.0
Change = Callable[[dict, random.Random], None]


def text_of(trace: dict, **options) -> bytes:
    return json.dumps(trace, **options).encode()


def with_other_order(trace: dict, chance: random.Random) -> bytes:
    chance.shuffle(trace["traceEvents"])
    events = [dict(chance.sample(list(each.items()), len(each))) for each in trace["traceEvents"]]
    mixed = chance.sample(list({**trace, "traceEvents": events}.items()), len(trace))
    return text_of(dict(mixed), indent=chance.choice([None, 1, "\t"]))


def with_unknown_parts(trace: dict, chance: random.Random) -> bytes:
    """Adds events, keys and header entries that mean nothing to a reader of waits."""
    for _ in range(chance.randint(1, 20)):
        phase = chance.choice("BEsfinbeMC")
        event = {"ph": phase, "cat": "ac2g", "name": "more", "pid": "Spans", "tid": {}, "ts": "x"}
        trace["traceEvents"].insert(chance.randrange(len(trace["traceEvents"])), event)
    for event in chance.sample(trace["traceEvents"], 10):
        event["more"] = [[{"traceEvents": ["]}"]}], None, '"ph": "X"', 1e99]
    return text_of({"before": '"traceEvents" : [ {', **trace, "after": [{"ts": 0}]})


def with_other_bytes(trace: dict, chance: random.Random) -> bytes:
    name = 'törf\ud83d\ude00\n\t\\"[{' * chance.randint(1, 9)
    trace["traceEvents"][0] |= {"cat": "of no reader", "name": name}
    content = text_of(trace, indent=1, separators=(" ,\r", "\n: "))
    if chance.random() < 0.5:
        return b"\xef\xbb\xbf\n" + content.replace(b"\n", b"\r\n")
    at = chance.randrange(len(content))
    return gzip.compress(content[:at]) + gzip.compress(content[at:])


SAME = [with_other_order, with_unknown_parts, with_other_bytes]


def one_value(values: list) -> Change:
    """Returns a change that gives one key of some events one of these values."""

    def change(trace: dict, chance: random.Random) -> None:
        key = chance.choice(["ts", "dur", "name", "cat", "pid", "tid", "args", "ph"])
        for event in chance.sample(trace["traceEvents"], chance.randint(1, 12)):
            event[key] = chance.choice(values)

    return change


def crossed(trace: dict, chance: random.Random) -> None:
    """Lets rows of threads and streams overlap, end at once, or last for days."""
    for event in chance.sample(trace["traceEvents"], 15):
        event["ts"] += chance.choice([-150, -0.001, 37, 1e6])
        event["dur"] = chance.choice([0, 5e-324, 90, 300, 1e11])


def renumbered(trace: dict, chance: random.Random) -> None:
    """Gives calls and work numbers that they share with others, or that are none."""
    numbers = [0, -1, 1, 2, 2**31, 2**63 - 1, -(2**63), "3", 4.9, True]
    for event in trace["traceEvents"]:
        for key in ("correlation", "External id", "device", "stream", "bytes"):
            if key in event["args"] and chance.random() < 0.3:
                event["args"][key] = chance.choice(numbers)


def repeated(trace: dict, chance: random.Random) -> None:
    events = trace["traceEvents"]
    for _ in range(chance.randint(1, 5)):
        events += [{**event, "tid": chance.randrange(50)} for event in events[:40]]


def odd_header(trace: dict, chance: random.Random) -> None:
    odd = [None, 5, [3, None, {"id": 0}], [{"id": 0, "name": [1]}], {"id": 0}, "x" * 10_000]
    trace["deviceProperties"], trace["otherData"] = chance.choice(odd), chance.choice(odd)
    trace[chance.choice(["traceEvents", "more"])] = chance.choice([{}, 7, None, [[]], [7, {}]])


OTHER: list[Change] = [
    one_value([float("inf"), float("-inf"), float("nan"), -0.0, 1e16, 10**400]),
    one_value(["\x00", "\ud800", "é" * 500, "<" * 300, "(" * 300, "_Z9", "_Z99999999999x", "#1"]),
    one_value([[], {}, {"args": {}}, [[[]]], {"name": {"name": 1}}, {"correlation": {}}]),
    crossed,
    renumbered,
    repeated,
    odd_header,
]


def endings(content: bytes, chance: random.Random) -> bytes:
    """Sometimes writes a file as another program might: cut, in another encoding, or longer."""
    kind = chance.randrange(12)
    if kind == 0:
        return content.decode().encode(chance.choice(["utf-16", "utf-32", "utf-8-sig"]))
    if kind == 1:
        return content.replace(b'"', b"'")
    if kind == 2:
        return content + chance.choice([b",", b"\x00" * 50, b"]", b"// the end", content])
    return gzip.compress(content, 1) + b"\x00" * chance.randrange(9) if kind == 3 else content


def findings(path) -> dict:
    found = summarize(read_trace(path)).as_json()
    return {key: found[key] for key in ("counts", "busy_us", "idle_by_cause_us", "places")}


@pytest.mark.deep(20)
@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", range(FILES // IN_A_PART))
def test_a_rewritten_trace_is_read_as_before_or_refused(tmp_path, part):
    path, said = tmp_path / "trace.json", []
    expected = findings(whole().save(tmp_path / "whole.json"))
    for seed in range(IN_A_PART * part, IN_A_PART * (part + 1)):
        chance, trace = random.Random(f"rewritten {seed}"), json.loads(whole().text())
        began = time.process_time()
        if seed % 3 == 0:
            path.write_bytes(chance.choice(SAME)(trace, chance))
            assert findings(path) == expected, seed
        else:
            chance.choice(OTHER)(trace, chance)
            path.write_bytes(endings(text_of(trace), chance))
            said.append(opened(path))
            assert said[-1] == "read" or said[-1].startswith(str(path)), seed
            assert len(said[-1]) < 400, seed
        assert time.process_time() - began < MOST_SECONDS, seed
    assert 5 < said.count("read") < 60
