"""Each number in a chapter's prose is measured, counted or asserted, or has a reason."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from solutions.measure.stored import calibration, figures

from .notebooks import REFERENCES, Cell, cells_of
from .numbers import stray_numbers
from .terms import prose


def config(name: str, preset: str, field: str) -> float:
    return figures(name)["presets"][preset]["config"][field]


def kernels(system: str, preset: str, variant: str) -> int:
    """Returns the number of kernels in a recorded decode step on the H200, its load kernel
    included."""
    return figures(system)["presets"][preset]["steps"]["decode"][variant]["counts"]["kernels"]


def served(variant: str, gpu: str = "nvidia-h200") -> float:
    """Returns chapter 05's requests served per second, for Llama-3-70B's shape."""
    serving = figures("offload_serving", gpu)["presets"]["llama_3_70b_rank"]["steps"]["serving"]
    return serving[variant]["requests_per_s"]


def gain_of_serving(gpu: str = "nvidia-h200") -> float:
    """Returns by how many percent the copy kernel raises the requests served per second, for
    Llama-3-70B's shape."""
    return 100 * (served("after", gpu) / served("before", gpu) - 1)


def host_bound(variant: str, preset: str = "serving") -> Mapping[str, Any]:
    """Returns what an H200 measured of chapter 07's step."""
    return figures("host_bound")["presets"][preset]["steps"]["decode"][variant]


def loop(variant: str, preset: str = "serving") -> float:
    """Returns the microseconds of one of many steps of chapter 07 in a row."""
    return host_bound(variant, preset)["loop_us"]


def metadata_saved() -> float:
    """Returns the microseconds of metadata that sharing saves in chapter 07's step in a graph."""
    alone, shared = (host_bound(name)["metadata_us"]["4"] for name in ("graph_alone", "after"))
    return alone - shared


def weights_of_a_rank() -> float:
    """Returns the number of weights in the matrix products of chapter 05's model, on its GPU."""
    model = figures("offload_serving")["presets"]["llama_3_70b_rank"]["config"]
    hidden, size = model["hidden_size"], model["head_size"]
    projections = 2 * (model["num_heads"] + model["num_kv_heads"]) * size
    return model["num_layers"] * hidden * (projections + 3 * model["intermediate_size"])


def idle_in_a_row() -> float:
    """Returns the milliseconds of chapter 02's changed step in a row in which its GPU is idle."""
    step = figures("sync_free")["presets"]["serving"]["steps"]["decode"]["separate"]
    return (step["loop_us"] - step["device_us"] * (1 - step["idle_share"])) / 1e3


def gdn_host_of_a_kernel() -> float:
    """Returns the microseconds of the host for each kernel of chapter 03's step without waits, with
    1,024 tokens."""
    step = figures("gdn_sizes")["presets"]["1024 tokens"]["steps"]["prefill"]["after"]
    return step["loop_us"] / step["counts"]["kernels"]


def gdn_loop(name: str, preset: str, variant: str) -> float:
    """Returns the microseconds of one of many steps of chapter 03 in a row."""
    return figures(name)["presets"][preset]["steps"]["prefill"][variant]["loop_us"]


def gdn_fixed_part() -> float:
    """Returns by how many milliseconds chapter 03's graph with 1,024 tokens takes longer than a
    quarter of the graph with 4,096."""
    small, large = (
        gdn_loop("gdn_sizes", f"{tokens} tokens", "in_graph") for tokens in (1024, 4096)
    )
    return (small - large / 4) / 1e3


def gdn_limit_of_a_faster_host() -> float:
    """Returns the tokens for which chapter 03's GPU takes as long as a host that needs 20
    microseconds a kernel."""
    host_us = 20 * gdn_loop("gdn_sizes", "1024 tokens", "after") / gdn_host_of_a_kernel()
    return host_us / (gdn_loop("gdn_sizes", "4096 tokens", "in_graph") / 4096)


def host_of_a_kernel() -> float:
    """Returns the microseconds of the host for each kernel of chapter 01's step."""
    step = figures("pinned_h2d")["presets"]["small"]["steps"]["prefill"]["after"]
    return step["host_us"] / step["counts"]["kernels"]


def recompute_ms() -> float:
    """Returns the milliseconds of the matrix products of chapter 05's prefix, on its GPU."""
    tokens = config("offload_serving", "llama_3_70b_rank", "prefix_tokens")
    return 2 * weights_of_a_rank() * tokens / calibration()["tensor_flops"] / 1e3


def operator_us() -> float:
    """Returns the microseconds of the host for an operator of PyTorch that launches one kernel."""
    return calibration()["op_us"] + calibration()["launch_us"]


def python_of_a_layer() -> float:
    """Returns the microseconds of the host for each of chapter 04's 32 layers, without launches and
    copies, in the step that is cut in pieces and has the new mask."""
    step = figures("flex_graph")["presets"]["llama_3_8b"]["steps"]["decode"]["piecewise_built"]
    costs = calibration()
    of_layers = 32 * (4 * costs["triton_launch_us"] + costs["copy_call_us"])
    return (step["host_us"] - 33 * costs["graph_launch_us"] - of_layers) / 32


LINK = lambda: calibration()["h2d_bandwidth"]
FROM_DATA: dict[tuple[str, str], Callable[[], float]] = {
    ("00", "55"): lambda: LINK() / 1e3,
    ("00", "8.8"): lambda: calibration()["launch_us"],
    ("00", "11.5"): operator_us,
    ("00", "24.6"): host_of_a_kernel,
    ("00", "27"): lambda: calibration()["triton_launch_us"],
    ("01", "24.6"): host_of_a_kernel,
    ("02", "8192"): lambda: config("sync_free", "serving", "hidden_size"),
    ("02", "128,256"): lambda: config("sync_free", "serving", "vocab_size"),
    ("02", "256"): lambda: config("sync_free", "serving", "num_requests"),
    ("02", "1.9"): idle_in_a_row,
    ("03", "82"): gdn_host_of_a_kernel,
    ("03", "108"): lambda: gdn_loop("gdn", "small", "after") / 265,
    ("03", "21.79"): lambda: gdn_loop("gdn_sizes", "1024 tokens", "on_device") / 1e3,
    ("03", "0.7"): gdn_fixed_part,
    ("03", "1,340"): gdn_limit_of_a_faster_host,
    ("04", "11.5"): operator_us,
    ("04", "575"): lambda: 50 * operator_us(),
    ("04", "280"): python_of_a_layer,
    ("04", "1,280"): lambda: 80 * 16,
    ("04", "79"): lambda: 80 - 1,
    ("04", "102"): lambda: 4 * 256 * 100_000 / 1e6,
    ("04", "189"): lambda: kernels("flex_graph", "narrow", "eager"),
    ("04", "142"): lambda: kernels("flex_graph", "narrow", "full"),
    ("04", "768"): lambda: config("flex_graph", "small", "hidden_size"),
    ("05", "335"): lambda: 40_960 * 8192 / 1e6,
    ("05", "33.6"): lambda: 4096 * 8192 / 1e6,
    ("05", "122"): gain_of_serving,
    ("05", "227"): lambda: gain_of_serving("nvidia-h100-80gb-hbm3"),
    ("05", "178"): recompute_ms,
    ("05", "8.6"): lambda: weights_of_a_rank() / 1e9,
    ("05", "786"): lambda: calibration()["tensor_flops"] / 1e6,
    ("05", "605"): lambda: 4096 * 8192 / LINK(),
    ("06", "14.5"): lambda: served("before"),
    ("06", "32.3"): lambda: served("after"),
    ("07", "512"): lambda: config("host_bound_model", "qwen3_0.6b", "cached_tokens"),
    ("07", "66"): lambda: kernels("host_bound_model", "qwen3_0.6b", "eager") / 28,
    ("07", "37"): lambda: 20 * kernels("host_bound_model", "qwen3_0.6b", "eager") / 1e3,
    ("07", "8.9"): lambda: loop("before", "small") / loop("after", "small"),
    ("07", "12.5"): lambda: 100 * (1 - loop("fused") / loop("before")),
    ("07", "26.5"): lambda: 100 * (1 - loop("after_fused") / loop("after")),
    ("07", "767"): lambda: 4 * host_bound("after")["metadata_us"]["1"],
    ("07", "4,274"): lambda: loop("before") - loop("graph_alone"),
    ("07", "2,182"): lambda: loop("graph_alone") - loop("after"),
    ("07", "1,902"): metadata_saved,
    ("07", "280"): lambda: loop("graph_alone") - loop("after") - metadata_saved(),
    ("07", "21.4"): lambda: 4 * calibration()["copy_call_us"],
    ("07", "9.8"): lambda: loop("before") / host_bound("before")["device_us"],
    ("07", "6.5"): lambda: 100 * (1 - loop("after_fused", "small") / loop("after", "small")),
    ("07", "7.8"): lambda: kernels("host_bound_model", "qwen3_0.6b", "eager") / (28 * 8 + 12),
    ("07", "82"): gdn_host_of_a_kernel,
}
"""The value of each (chapter, number) that no cell shows, computed from stored figures."""
REASONS = {
    ("03", "63"): "a length beside the size of a chunk, that a test tries",
    ("03", "65"): "a length beside the size of a chunk, that a test tries",
    ("03", "4,200"): "tokens of an example: more than half of 8,192, and below the limit",
    ("04", "8.45"): "GiB, as upstream's pull request says",
    ("04", "1.2"): "seconds, as upstream measured on a B200",
    ("04", "0.811"): "seconds, as upstream measured on a B200",
    ("04", "0.499"): "seconds of FlashInfer, as upstream measured on a B200",
    ("05", "10,000"): "pieces, as upstream measured on an H100",
    ("05", "100,000"): "pieces, as upstream measured on an H100",
    ("05", "37"): "GB/s, as upstream measured on an H100",
    ("05", "154"): "percent more requests, as upstream measured on an H100",
    ("05", "142"): "garbled answers, as vLLM #47291 measured",
    ("05", "3,300"): "answers, as vLLM #47291 measured",
    ("05", "51,828"): "descriptors, as the report of a driver's crash says",
    ("07", "63"): "tokens of the longest of the first 999 prompts, in the cell below",
    ("07", "61"): "percent more tokens a second, as upstream measured on an H200",
    ("07", "900"): "microseconds of upstream's metadata, before",
    ("07", "300"): "microseconds of upstream's metadata, after",
}
every_chapter = pytest.mark.parametrize("path", REFERENCES, ids=lambda path: path.stem)


def strays(path):
    return [(path.name[:2], number) for _, number in stray_numbers(cells_of(path))]


@every_chapter
def test_every_number_in_prose_is_from_somewhere(path):
    assert [found for found in strays(path) if found not in FROM_DATA | REASONS] == []


@pytest.mark.parametrize("place", FROM_DATA | REASONS, ids=" ".join)
def test_what_has_a_reason_is_in_its_chapter(place):
    chapter, number = place
    (path,) = (path for path in REFERENCES if path.name.startswith(chapter))
    assert any(re.search(rf"\b{re.escape(number)}\b", prose(cell)) for cell in cells_of(path))


@pytest.mark.parametrize("place", FROM_DATA, ids=" ".join)
def test_what_is_worked_out_is_what_the_chapter_says(place):
    said = float(place[1].replace(",", ""))
    assert FROM_DATA[place]() == pytest.approx(said, rel=0.01)


def cells(text, source="", shown=""):
    return [Cell("text", "markdown", text, "", {}), Cell("code", "code", source, shown, {})]


@pytest.mark.parametrize(
    "text, source, shown",
    [
        ("It takes 38.6 milliseconds.", "", "took 38.63"),
        ("192 kernels are gone.", "assert gone == 8 * 24", ""),
        ("There are 1,050 waits.", "", "before 1050"),
        ("Chapter 04, section 3, #38794, on an H200", "", ""),
        ("`x[512]` and request 7", "", ""),
    ],
)
def test_a_number_that_a_cell_holds_is_left_alone(text, source, shown):
    assert list(stray_numbers(cells(text, source, shown))) == []


@pytest.mark.parametrize(
    "text, shown",
    [
        ("It takes 38.5 milliseconds.", "took 38.63"),
        ("73 waits", "72 waits"),
        ("1,051 waits", "1050"),
        ("6 percent", "7%"),
    ],
)
def test_another_number_is_found(text, shown):
    ((cell, _),) = stray_numbers(cells(text, "", shown))
    assert cell == "text"
