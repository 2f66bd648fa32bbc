"""Damaged traces: each is refused in one sentence, or read, whatever was changed in it."""

import json
import random

import pytest

from debubble.timeline import TraceFileError
from debubble.traces.reading import read_trace
from debubble.traces.summary import summarize

from .handmade import Handmade

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
    """Returns a trace with a few random changes: of values, or of bytes."""
    chance = random.Random(seed)
    made = whole()
    if seed % 2:
        for _ in range(chance.randint(1, 4)):
            event = chance.choice(made.events)
            place = event.get("args") if chance.random() < 0.4 else event
            if isinstance(place, dict) and place:
                key = chance.choice(sorted(place))
                place[key] = chance.choice(ODD)
                if chance.random() < 0.3:
                    del place[key]
        return made.text().encode()
    content = bytearray(made.text().encode())
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(content))
        kind = chance.randrange(4)
        if kind == 0:
            content[at] = chance.randrange(256)
        elif kind == 1:
            del content[at : at + chance.randint(1, 40)]
        elif kind == 2:
            content[at:at] = content[at : at + chance.randint(1, 40)]
        else:
            del content[at + 1000 * chance.randint(1, 20) :]
    return bytes(content)


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


@pytest.mark.parametrize("part", range(10))
def test_a_damaged_trace_is_refused_or_read(tmp_path, part):
    path = tmp_path / "trace.json"
    said = []
    for seed in range(100 * part, 100 * part + 100):
        path.write_bytes(mutated(seed))
        said.append(opened(path))
        assert said[-1] == "read" or said[-1].startswith(str(path)), seed
        assert len(said[-1]) < 400, seed
    assert 10 < said.count("read") < 90
