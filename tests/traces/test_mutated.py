"""Damaged traces: each is refused in one sentence, or read, whatever was changed in it."""

import gzip
import json
import random
import resource

import pytest

from debubble.timeline import TraceFileError
from debubble.traces.reading import read_trace
from debubble.traces.summary import summarize

from .handmade import BASE, Handmade

FILES, IN_A_PART = 10_000, 100
MOST_KILOBYTES = 50_000
"""Memory by which the process may grow for 100 files of at most 15 kB."""
ODD = [None, True, -1, 0, 1e300, 10**30, float("nan"), "", "x" * 50, "5", [], {}, [[]], {"a": 1}]


def whole() -> Handmade:
    made = Handmade()
    for number in range(4):
        at = 200.0 * number
        made.host("user_annotation", f"ProfilerStep#{number}", at, 200)
        made.function("train.py(7): step", at, 190)
        made.launched(at, at + 20, 80)
        made.call("cudaStreamSynchronize", at + 50, 55)
        copy = made.call("cudaMemcpyAsync", at + 110)
        made.device("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", copy, at + 120, 5)
        made.kernel(made.call("cudaGraphLaunch", at + 130), at + 140, 20, stream=20)
    return made


def mutated(seed: int) -> bytes:
    """Returns a trace with a few random changes: of values, of the order of events, or of bytes,
    sometimes of bytes that gzip packed."""
    chance = random.Random(seed)
    made = whole()
    if seed % 2:
        for _ in range(chance.randint(1, 4)):
            change_values(made.events, chance)
        return made.text().encode()
    content = made.text().encode()
    is_packed = seed % 10 == 8
    changed = bytearray(gzip.compress(content) if is_packed else content)
    for _ in range(chance.randint(1, 6)):
        change_bytes(changed, chance)
    return bytes(changed)


def change_values(events: list[dict], chance: random.Random) -> None:
    event = chance.choice(events)
    kind = chance.random()
    if kind < 0.1:
        events.remove(event)
        if kind < 0.05:
            events.insert(chance.randint(0, len(events)), event)
        return
    if kind < 0.2:
        event["dur"], event["ts"] = chance.choice([(1e9, BASE), (0, BASE - 1e9), (5, BASE + 100)])
        return
    place = event.get("args") if kind < 0.5 else event
    if isinstance(place, dict) and place:
        key = chance.choice(sorted(place))
        place[key] = chance.choice(ODD)
        if chance.random() < 0.3:
            del place[key]


def change_bytes(content: bytearray, chance: random.Random) -> None:
    at = chance.randrange(max(1, len(content)))
    kind = chance.randrange(4)
    if kind == 0:
        content[at : at + 1] = bytes([chance.randrange(256)])
    elif kind == 1:
        del content[at : at + chance.randint(1, 40)]
    elif kind == 2:
        content[at:at] = content[at : at + chance.randint(1, 40)]
    else:
        del content[at + 1000 * chance.randint(1, 20) :]


def opened(path) -> str:
    """Opens a file, and returns "read" or the sentence that refuses it."""
    try:
        found = summarize(read_trace(path))
    except TraceFileError as error:
        return str(error)
    json.dumps(found.as_json(), allow_nan=False)
    assert all(time >= 0 for time in found.findings.causes.values())
    assert 0 <= found.findings.idle <= found.findings.span * 1.001 + 0.01
    return "read"


@pytest.mark.deep(20)
@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", range(FILES // IN_A_PART))
def test_a_damaged_trace_is_refused_or_read(tmp_path, part):
    path = tmp_path / "trace.json"
    said = []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for seed in range(IN_A_PART * part, IN_A_PART * (part + 1)):
        path.write_bytes(mutated(seed))
        said.append(opened(path))
        assert said[-1] == "read" or said[-1].startswith(str(path)), seed
        assert len(said[-1]) < 400, seed
    assert 10 < said.count("read") < 90
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < MOST_KILOBYTES
