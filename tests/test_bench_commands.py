"""Benchmarks as commands: the usage says how to run them, and Ctrl-C ends them with one line."""

import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from solutions.measure.command import INTERRUPTED

ROOT = Path(__file__).parents[1]
SYSTEMS = [path.parent.name for path in sorted(ROOT.glob("solutions/*/bench.py"))]
MEASURES_FOR_EVER = """
import runpy, signal, sys, time
from solutions.measure import benchmark

# Whoever started the tests in the background has Ctrl-C ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

def measure_step(*given):
    print("measuring", flush=True)
    while True:
        time.sleep(0.01)

benchmark.measure_step = measure_step
sys.argv = ["bench", "--quick"]
runpy.run_module("solutions.pinned_h2d.bench", run_name="__main__")
"""


def test_each_system_with_a_bench_is_here():
    assert {*SYSTEMS} == {
        "engine", "flex_graph", "gdn", "host_bound", "offload", "pinned_h2d", "sync_free",
    }  # fmt: skip


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_usage_is_the_command(system, capsys):
    bench = importlib.import_module(f"solutions.{system}.bench")
    with pytest.raises(SystemExit):
        bench.main(["--runs", "none"])
    assert f"usage: python -m solutions.{system}.bench [-h]" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is no signal there")
def test_ctrl_c_ends_a_benchmark_with_one_line(accelerator):
    command = [sys.executable, "-c", MEASURES_FOR_EVER]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "DEBUBBLE_DEVICE": accelerator.name},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "measuring" in line:
            break
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == INTERRUPTED
    assert errors.strip() == "stopped: what was not written to --output yet is lost"
