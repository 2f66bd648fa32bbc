"""A trace becomes a timeline: events, what launched them, and for which code."""

import gzip
import json

import pytest

import debubble
from debubble.timeline import TraceFileError
from debubble.traces.json_stream import JsonStream
from debubble.traces.names import short_kernel_name
from debubble.traces.reading import read_trace

from .handmade import DEVICE, Handmade


def two_kernels() -> Handmade:
    made = Handmade()
    made.function("train.py(7): step", 0, 500)
    made.launched(10, 20, 100)
    made.call("cudaStreamSynchronize", 40, 90)
    made.launched(150, 165, 50, op="aten::mul")
    return made


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_a_timeline_is_loaded(tmp_path, name):
    timeline = debubble.Timeline.load(two_kernels().save(tmp_path / name))
    assert timeline.counts()["kernels"] == 2
    assert timeline.counts()["host_syncs"] == 1
    kernels = [event for event in timeline.events if event.kind == "kernel"]
    assert [kernel.name for kernel in kernels] == ["add", "mul"]
    assert kernels[1].source.function == "step"
    assert timeline.launch_of(kernels[1]).start == 140
    assert timeline.label == "measured on NVIDIA H100"


def test_a_bubble_is_traced_to_the_wait(tmp_path):
    timeline = debubble.Timeline.load(two_kernels().save(tmp_path / "trace.json"))
    (bubble,) = timeline.bubbles()
    assert (bubble.duration, bubble.cause) == (45, "waiting for the host")
    assert bubble.held_by.name == "stream synchronize"


def test_our_own_file_packed_by_gzip_is_loaded(tmp_path):
    timeline = debubble.Timeline.load(two_kernels().save(tmp_path / "trace.json"))
    timeline.save(tmp_path / "ours.json")
    packed = tmp_path / "ours.json.gz"
    packed.write_bytes(gzip.compress((tmp_path / "ours.json").read_bytes()))
    assert debubble.Timeline.load(packed).events == timeline.events


def test_a_calls_thread_is_that_of_its_operator(tmp_path):
    made = Handmade()
    made.op("aten::add", 0, 50, thread=77, **{"External id": 5})
    correlation = made.call("cudaLaunchKernel", 10, thread=123456, **{"External id": 5})
    made.kernel(correlation, 30, 5)
    trace = read_trace(made.save(tmp_path / "trace.json"))
    (kernel,) = (event for event in trace.timeline.events if event.on_device)
    assert kernel.name == "add"


def test_kernels_of_a_graph_belong_to_its_launch(tmp_path):
    made = Handmade()
    launch = made.call("cudaGraphLaunch", 0)
    for number in range(5):
        made.kernel(launch, 20 + 10 * number, 10)
    timeline = read_trace(made.save(tmp_path / "trace.json")).timeline
    assert timeline.counts() | {"kernels": 5, "graph_launches": 1} == timeline.counts()
    assert timeline.bubbles() == []


def test_processes_of_one_file_may_use_the_same_numbers(tmp_path):
    made = Handmade()
    made.kernel(made.call("cudaLaunchKernel", 0), 10, 5)
    made.correlation = 0
    made.kernel(made.call("cudaLaunchKernel", 1000), 1010, 5)
    timeline = read_trace(made.save(tmp_path / "trace.json")).timeline
    first, second = (event for event in timeline.events if event.on_device)
    assert [timeline.launch_of(event).start for event in (first, second)] == [0, 1000]


def test_work_without_a_time_is_left_out_and_said(tmp_path):
    made = two_kernels()
    made.device("kernel", "lost", made.call("cudaLaunchKernel", 300), 0, 0)
    made.events[-1]["ts"] = 0
    trace = read_trace(made.save(tmp_path / "trace.json"))
    assert trace.timeline.counts()["kernels"] == 2
    assert trace.notes == ["1 kernels or copies have no time in the file, and are left out."]


def test_the_device_can_be_chosen(tmp_path):
    made = two_kernels()
    made.device("kernel", "of the other", made.call("cudaLaunchKernel", 300), 310, 5)
    made.events[-1]["args"]["device"] = DEVICE + 1
    path = made.save(tmp_path / "trace.json")
    assert read_trace(path).timeline.counts()["kernels"] == 2
    assert read_trace(path, DEVICE + 1).timeline.counts()["kernels"] == 1
    with pytest.raises(ValueError, match="no device 9: it has"):
        read_trace(path, 9)


def of_amd() -> Handmade:
    """Returns a trace with the numbers and names that PyTorch for AMD writes."""
    made = Handmade()
    for number in range(3):
        launch = made.call("hipLaunchKernel", 100 * number)
        made.device("kernel", "_ZN5aiter8add_normIDF16bEEvPT_", launch, 100 * number + 25, 10, 0)
        copy = made.call("hipMemcpyWithStream", 100 * number + 40, 30)
        name = "Memcpy DtoH (Device -> Host)"
        made.device("gpu_memcpy", name, copy, 100 * number + 60, 5, 0)
    for event in made.events:
        if "device" in event["args"]:
            event["args"]["device"] = 9
    return made


def test_a_trace_of_an_amd_gpu_is_read(tmp_path):
    """The header numbers the only GPU 0, and the kernels say 9; the default stream is 0."""
    timeline = read_trace(of_amd().save(tmp_path / "trace.json")).timeline
    assert timeline.label == "measured on NVIDIA H100"
    assert timeline.counts() | {"kernels": 3, "d2h": 3, "host_syncs": 3} == timeline.counts()
    assert {(e.name, e.lane) for e in timeline.events if e.kind == "kernel"} == {
        ("add_norm", "stream 0")
    }


@pytest.mark.parametrize(
    ("call", "waits"),
    [("cudaMemcpy", 1), ("cuMemcpyDtoH_v2", 1), ("cudaMemcpyAsync", 0), ("cudaMemcpyPeer", 0)],
)
def test_calls_of_copies_that_wait_are_waits(tmp_path, call, waits):
    made = two_kernels()
    copy = made.call(call, 210, 20)
    made.device("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", copy, 220, 5)
    timeline = read_trace(made.save(tmp_path / "trace.json")).timeline
    assert timeline.counts()["host_syncs"] == 1 + waits
    assert timeline.counts()["d2h"] == 1


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void at::native::reduce_kernel<512, at::Op>(at::Op)", "reduce_kernel"),
        ("void at::native::(anonymous namespace)::index<float>(float*)", "index"),
        ("void (anonymous namespace)::resolve<long>(long*)", "resolve"),
        ("_ZN12_GLOBAL__N_15aiter8add_normIDF16bLi256EEEvPT_", "add_norm"),
        ("_Z10fused_copyPKfPf", "fused_copy"),
        ("_Zebra", "_Zebra"),
        ("triton_poi_fused_0", "triton_poi_fused_0"),
    ],
)
def test_kernels_have_short_names(name, short):
    assert short_kernel_name(name) == short


def refusals():
    text = two_kernels().text()
    events = json.loads(text)["traceEvents"]
    negative = json.loads(text)
    negative["traceEvents"][1]["dur"] = -3
    return {
        "cut off": (text[: len(text) // 2], "may still be writing it"),
        "no events": (json.dumps({"traceEvents": []}), "no operators, calls or kernels"),
        "negative": (json.dumps(negative), "event 2 .* lasts -3 microseconds"),
        "a list": (json.dumps(events), "it is a list"),
        "half a value": (text.replace('"dur"', '"dur" 5', 1), "at character .* belongs"),
        "nothing": ("", "empty"),
        "of debubble": (
            json.dumps({"otherData": {"written by": "debubble"}, "traceEvents": events}),
            "debubble itself wrote it",
        ),
        "deep": ('{"schemaVersion": ' + "[" * 100_000, "nests too deep"),
        "two": (text + text, "the end of the file"),
    }


@pytest.mark.parametrize("what", refusals())
def test_what_can_not_be_read_is_one_sentence(tmp_path, what):
    text, sentence = refusals()[what]
    path = tmp_path / "trace.json"
    path.write_text(text)
    with pytest.raises(TraceFileError, match=sentence) as raised:
        read_trace(path)
    assert str(raised.value).startswith(str(path)) and str(raised.value).endswith(".")


def test_files_packed_badly_are_one_sentence(tmp_path):
    path = tmp_path / "trace.json.gz"
    packed = gzip.compress(two_kernels().text().encode())
    for content, sentence in (
        (gzip.compress(packed), "packed twice"),
        (packed[:-30], "cut off or damaged"),
        (gzip.compress(b" " * 200_000_000), "times its size"),
    ):
        path.write_bytes(content)
        with pytest.raises(TraceFileError, match=sentence):
            read_trace(path)
    with pytest.raises(TraceFileError, match="is a folder"):
        read_trace(tmp_path)


def test_an_event_may_lie_across_two_parts(tmp_path, monkeypatch):
    whole = two_kernels()
    path = whole.save(tmp_path / "trace.json")
    for size in (1, 7, 64):
        monkeypatch.setattr("debubble.traces.text.BYTES_AT_A_TIME", size)
        seen = []
        JsonStream(path).read(seen.append)
        assert seen == whole.events
