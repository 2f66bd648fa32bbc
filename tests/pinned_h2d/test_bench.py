"""The benchmark runs both variants, says how it got its times, and stores them."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from types import SimpleNamespace

import pytest
import torch

from solutions.measure import benchmark
from solutions.pinned_h2d import StepConfig, bench
from tests.scheduling import schedule_only


@pytest.fixture
def shallow_model(monkeypatch):
    shallow = replace(StepConfig.small(), num_layers=2, num_requests=3)
    monkeypatch.setattr(StepConfig, "small", lambda: shallow)


def test_it_prints_a_table_within_a_terminal_and_saves_a_record(
    accelerator, shallow_model, tmp_path, capsys
):
    with schedule_only(accelerator):
        bench.main(["--quick", "--output", str(tmp_path / "new")])
    how = "sim, modelled on" if accelerator.modelled else "measured on"
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    assert f"ms of a step behind 40 ms of work: {how}" in " ".join(printed.split())

    record = json.loads((tmp_path / "new" / "pinned_h2d.json").read_text())
    assert record["modelled"] is accelerator.modelled
    assert date.fromisoformat(record["date"]) <= datetime.now(UTC).date()
    steps = record["presets"]["small"]["steps"]
    assert steps["prefill"]["before"]["counts"]["h2d_pageable"] == 2 * 3
    assert steps["prefill"]["after"]["counts"]["h2d_pinned"] == accelerator.pin_memory
    assert steps["decode"]["after"]["counts"]["h2d_pinned"] == 0
    for variants in steps.values():
        before, after = variants["before"], variants["after"]
        for cost in (before, after):
            assert min(cost["device_us"], cost["host_us"]) > 0
            assert 0 <= cost["idle_share"] < 1
        assert after["attention_us"] > 0
        if accelerator.modelled:  # Clocks are unreliable on a machine with other work.
            assert before["device_us"] > after["device_us"]
            assert after["idle_share"] < before["idle_share"]
            assert before["host_us"] > benchmark.LOAD_MS * 1e3 > after["host_us"]


@pytest.mark.parametrize(
    ("free", "fraction", "reserved", "fits"),
    [(50, 1.0, 0, True), (40, 1.0, 0, False), (50, 0.25, 0, False), (50, 0.75, 20, False)],
    ids=["free", "taken", "limited", "limited and used"],
)
def test_a_shape_fits_what_is_free_and_what_this_process_may_take(
    monkeypatch, free, fraction, reserved, fits
):
    """A shape of 45 GiB fits a GPU of 80 GiB only if that much is free, and if it is within this
    process's limit."""
    gib = 2**30
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (free * gib, 80 * gib))
    monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", lambda: fraction)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: reserved * gib)
    assert benchmark.fits(SimpleNamespace(modelled=False), 45 * gib) is fits
    assert not benchmark.fits(SimpleNamespace(modelled=True), 0)
