"""Measured crossovers: stored as data, validated when read, and used to choose the fastest path."""

import json
import math
import warnings
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import debubble
from debubble.assets import slug
from solutions.offload.choice import crossover as crossover_module
from solutions.offload.choice.crossover import (
    DEFAULT_GPU,
    PATHS,
    SHIPPED,
    Crossover,
    cache_path,
    used_for,
)

from .times import KIB, crossover_of, line_times

A30 = "NVIDIA A30"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Returns the user's cache directory, which is empty."""
    monkeypatch.setattr(crossover_module.platformdirs, "user_cache_path", lambda _: tmp_path)
    return tmp_path / "crossover"


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """Returns an empty folder that replaces the folder of shipped crossovers; it has only the
    default GPU's."""
    folder = tmp_path / "shipped"
    monkeypatch.setattr(crossover_module, "SHIPPED", folder)
    crossover_of(line_times, gpu=DEFAULT_GPU).save(folder / "nvidia-h200.json")
    return folder


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("nbytes", [4 * KIB, 16 * KIB, 64 * KIB])
@pytest.mark.parametrize("count", [16, 256, 4096])
def test_a_measured_time_is_given_as_it_is(path, nbytes, count):
    measured = crossover_of(lambda path, nbytes, count: nbytes % 7919 + count + len(path))
    expected = nbytes % 7919 + count + len(path)
    assert measured.time_us(path, nbytes, count) == pytest.approx(expected)


@given(
    st.sampled_from(PATHS), st.floats(4 * KIB, 64 * KIB), st.floats(16, 4096, allow_subnormal=False)
)
def test_between_two_sizes_and_counts_logarithms_are_interpolated(path, nbytes, count):
    measured = crossover_of(line_times)
    assert measured.time_us(path, nbytes, count) == pytest.approx(line_times(path, nbytes, count))


def test_the_middle_of_a_cell_is_the_geometric_mean_of_its_corners():
    corners = {(1024, 1): 1.0, (1024, 4): 4.0, (4096, 1): 16.0, (4096, 4): 256.0}
    measured = crossover_of(lambda _, *cell: corners[cell], (1024, 4096), (1, 4))
    assert measured.time_us("dma", 2048, 2) == pytest.approx(math.prod(corners.values()) ** 0.25)
    assert measured.time_us("dma", 2048, 1) == pytest.approx(4.0)
    assert measured.time_us("dma", 1024, 2) == pytest.approx(2.0)


def test_below_what_was_measured_the_time_stays_and_above_it_the_bandwidth():
    measured = crossover_of(line_times)
    assert measured.time_us("dma", 8, 1) == pytest.approx(2 * 16)
    assert measured.time_us("dma", 0, 0) == pytest.approx(2 * 16)
    assert measured.time_us("dma", 4 * KIB, 40960) == pytest.approx(2 * 40960)
    assert measured.time_us("dma", 640 * KIB, 16) == pytest.approx(2 * 16 * 10)
    assert measured.time_us("kernel", 640 * KIB, 4096) == pytest.approx(0.5 * 4096 * 160)


def test_the_fastest_path_is_chosen():
    measured = crossover_of(line_times)
    assert measured.best(4 * KIB, 1000) == "kernel"
    assert measured.best(15 * KIB, 1000) == "kernel"
    assert measured.best(17 * KIB, 1000) == "dma"


@pytest.mark.parametrize("nbytes", [1, 8, 0.5, 1 << 40])
@pytest.mark.parametrize("count", [1, 10_000_000])
def test_far_outside_the_nearest_border_decides(nbytes, count):
    by_count = crossover_of(lambda path, _, count: (count if path == "dma" else 256) + len(path))
    assert by_count.best(nbytes, count) == ("dma" if count == 1 else "kernel")


def test_a_single_cell_is_enough():
    measured = crossover_of(lambda path, *_: 1 + len(path), sizes=(4 * KIB,), counts=(16,))
    assert measured.best(1, 1) == measured.best(4 * KIB, 16) == measured.best(1e9, 10**9) == "dma"


def test_it_comes_back_from_its_file_as_it_was(tmp_path):
    saved = crossover_of(line_times, versions={"torch": "2.13.0"}, date="2026-11-22")
    saved.save(tmp_path / "deep/below/a30.json")
    loaded = Crossover.load(tmp_path / "deep/below/a30.json")
    assert vars(loaded) == vars(saved)
    assert [path.name for path in (tmp_path / "deep/below").iterdir()] == ["a30.json"]


def test_a_crossover_without_versions_and_date_is_saved_too(tmp_path):
    crossover_of(line_times).save(tmp_path / "a30.json")
    assert Crossover.load(tmp_path / "a30.json").versions == {}


def with_time(record, value):
    record["times_us"]["kernel"][1][2] = value


CORRUPT = {
    "sizes that don't increase": (lambda r: r.update(sizes=[4096, 4096, 65536]), "sizes has to be"),
    "sizes of nothing": (lambda r: r.update(sizes=[]), "sizes has to be a list"),
    "a size of 0": (lambda r: r.update(sizes=[0, 1, 2]), "sizes has to be"),
    "a size that is no whole number": (lambda r: r.update(sizes=[1.5, 2, 3]), "sizes has to be"),
    "a size of True": (lambda r: r.update(sizes=[True, 2, 3]), "sizes has to be"),
    "sizes as text": (lambda r: r.update(sizes="abc"), "sizes has to be a list"),
    "counts that fall": (lambda r: r.update(counts=[16, 8, 4]), "counts has to be a list"),
    "counts as a number": (lambda r: r.update(counts=16), "counts has to be a list"),
    "an unknown path": (lambda r: r["times_us"].update(bus=[]), "dma, kernel"),
    "a path that is missing": (lambda r: r["times_us"].pop("dma"), "times_us has to have"),
    "no times": (lambda r: r.update(times_us=None), "times_us has to have .*, not a NoneType"),
    "too few rows": (lambda r: r["times_us"]["dma"].pop(), "'dma' has to be 3 lists of 3"),
    "a short row": (lambda r: r["times_us"]["dma"][1].pop(), "'dma' has to be 3 lists of 3"),
    "a row as text": (lambda r: r["times_us"]["dma"].__setitem__(0, "abc"), "3 lists of 3 times"),
    "a time below 0": (lambda r: with_time(r, -1.0), "'kernel' has -1.0, which is no time"),
    "a time of 0": (lambda r: with_time(r, 0), "has 0, which is no time"),
    "a time without a number": (lambda r: with_time(r, math.nan), "NaN is no time"),
    "a time without end": (lambda r: with_time(r, math.inf), "Infinity is no time"),
    "a time too long to be one": (
        lambda r: with_time(r, 10**400),
        "has 100000.*, which is no time",
    ),
    "a size that no memory has": (lambda r: r.update(sizes=[1, 2, 10**400]), "sizes has to be"),
    "a count that no copy has": (lambda r: r.update(counts=[1, 2, 10**400]), "counts has to be"),
    "a time as text": (lambda r: with_time(r, "12"), "has '12', which is no time"),
    "a time of True": (lambda r: with_time(r, True), "has True, which is no time"),
    "an unknown name": (lambda r: r.update(speed=1), "not .*speed"),
    "a name that is missing": (lambda r: r.pop("date"), "it has to have gpu, .*date"),
    "a GPU without a name": (lambda r: r.update(gpu=None), "gpu has to be text, not None"),
    "a date in seconds": (lambda r: r.update(date=0), "date has to be text, not 0"),
    "versions as a list": (lambda r: r.update(versions=[1]), "versions has to be an object, not"),
}


@pytest.mark.parametrize("what", CORRUPT)
def test_a_corrupt_file_is_named_with_what_is_wrong(tmp_path, what):
    change, reason = CORRUPT[what]
    path = tmp_path / "a30.json"
    crossover_of(line_times).save(path)
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))
    with pytest.raises(ValueError, match=reason) as refused:
        Crossover.load(path)
    assert str(refused.value).startswith(f"{path} is no crossover: ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[1, 2]", b"null", b"7", b"\xff\xfe", b"[" * 100_000]
)
def test_what_is_no_object_at_all_is_refused_as_well(tmp_path, content):
    path = tmp_path / "a30.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"a30.json is no crossover: "):
        Crossover.load(path)


def test_the_users_own_measurement_comes_first(cache, shipped):
    mine = crossover_of(lambda *_: 7.0)
    mine.save(cache_path(A30))
    crossover_of(line_times).save(shipped / "nvidia-a30.json")
    assert cache_path(A30) == cache / "nvidia-a30.json"
    with warnings.catch_warnings(action="error"):
        assert Crossover.for_gpu(A30).times_us == mine.times_us


def test_without_one_the_shipped_one_is_used(shipped):
    crossover_of(lambda *_: 9.0).save(shipped / "nvidia-a30.json")
    with warnings.catch_warnings(action="error"):
        assert Crossover.for_gpu(A30).time_us("dma", 4 * KIB, 16) == pytest.approx(9.0)


def warned(gpu):
    """Returns (crossover chosen for this GPU, texts of the warnings)."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        chosen = Crossover.for_gpu(gpu)
    return chosen, [str(warning.message) for warning in caught]


def test_trap_a_corrupt_calibration_is_ignored_with_a_warning(shipped):
    cache_path(A30).parent.mkdir()
    cache_path(A30).write_text("{")
    crossover_of(lambda *_: 9.0).save(shipped / "nvidia-a30.json")
    chosen, (sentence,) = warned(A30)
    assert chosen.time_us("dma", 4 * KIB, 16) == pytest.approx(9.0)
    assert str(cache_path(A30)) in sentence
    assert sentence.endswith("`debubble calibrate --only crossover` measures a new one")


def test_trap_a_calibration_of_another_gpu_is_ignored_with_a_warning(shipped):
    crossover_of(lambda *_: 7.0, gpu="NVIDIA A100").save(cache_path(A30))
    crossover_of(lambda *_: 9.0).save(shipped / "nvidia-a30.json")
    chosen, (sentence,) = warned(A30)
    assert chosen.gpu == A30
    assert "was measured on NVIDIA A100, and this is NVIDIA A30" in sentence


def test_a_calibration_that_cannot_be_read_is_ignored_with_a_warning(shipped):
    cache_path(DEFAULT_GPU).mkdir(parents=True)
    chosen, (sentence,) = warned(DEFAULT_GPU)
    assert chosen.gpu == DEFAULT_GPU
    assert str(cache_path(DEFAULT_GPU)) in sentence


def test_a_gpu_that_nobody_measured_goes_by_the_default_ones_and_nothing_is_said(shipped):
    chosen, said = warned(A30)
    assert chosen.times_us == Crossover.load(shipped / "nvidia-h200.json").times_us
    assert (chosen.gpu, said) == (DEFAULT_GPU, [])


@pytest.mark.parametrize("gpu", ["NVIDIA A10G", "NVIDIA GeForce RTX 4090", "NVIDIA A30 MIG 1g.6gb"])
def test_a_gpu_of_any_name_has_a_path_for_every_copy_with_what_is_really_shipped(gpu):
    with warnings.catch_warnings(action="error"):
        chosen = Crossover.for_accelerator(SimpleNamespace(modelled=False, description=gpu))
        paths = {chosen.best(size, count) for size in (8, 4096, 1 << 30) for count in (1, 40_960)}
    assert paths <= set(PATHS)


def test_what_is_wrong_with_a_file_is_said_once_whoever_changes_the_filters(shipped):
    cache_path(A30).parent.mkdir()
    cache_path(A30).write_text("{")
    assert [len(warned(A30)[1]) for _ in range(3)] == [1, 0, 0]


def test_a_cache_whose_folder_may_not_be_entered_stops_nobody(cache, shipped):
    """The default GPU's crossover is used, with a warning, if the cache's folder can't be entered.
    (A folder that is a link to itself can't be entered by any user, not even root.)"""
    cache.symlink_to(cache)
    chosen, (sentence,) = warned(A30)
    assert chosen.gpu == DEFAULT_GPU and str(cache_path(A30)) in sentence
    assert "ignored: [Errno" in used_for(A30)


def test_a_file_in_place_of_the_cache_is_as_good_as_none(cache, shipped):
    cache.write_text("")
    assert warned(A30)[1] == []


def test_the_default_gpu_needs_no_warning(shipped):
    assert warned(DEFAULT_GPU)[1] == []


def test_doctor_is_told_whose_crossover_a_gpu_goes_by(shipped):
    with warnings.catch_warnings(action="error"):
        assert used_for(DEFAULT_GPU) == "measured on this GPU"
        assert used_for(A30) == (
            "not measured on this GPU: NVIDIA H200's is used, "
            "`debubble calibrate --only crossover` measures it"
        )
        crossover_of(line_times).save(cache_path(A30))
        assert used_for(A30) == "measured on this GPU"


def test_doctor_is_told_what_of_the_users_own_is_ignored(shipped):
    crossover_of(lambda *_: 7.0, gpu="NVIDIA A100").save(cache_path(A30))
    said = used_for(A30)
    assert said.startswith("not measured on this GPU: NVIDIA H200's is used, ")
    assert said.endswith("was measured on NVIDIA A100, and this is NVIDIA A30")
    assert f"; ignored: {cache_path(A30)} " in said


@pytest.mark.sim
def test_sim_goes_by_what_is_shipped_whatever_was_calibrated_here(cache):
    crossover_of(lambda *_: 7.0, gpu=DEFAULT_GPU).save(cache_path(DEFAULT_GPU))
    with warnings.catch_warnings(action="error"):
        chosen = Crossover.for_accelerator(debubble.accelerator("sim"))
    assert chosen.times_us == Crossover.load(SHIPPED / "nvidia-h200.json").times_us


@pytest.mark.gpu
def test_a_gpu_goes_by_its_users_calibration():
    accelerator = debubble.accelerator("cuda")
    gpu = accelerator.description
    crossover_of(lambda *_: 7.0, gpu=gpu).save(cache_path(gpu))
    assert Crossover.for_accelerator(accelerator).time_us("dma", 4 * KIB, 16) == pytest.approx(7.0)


@pytest.mark.parametrize("gpu", [DEFAULT_GPU, "NVIDIA H100 80GB HBM3"])
def test_what_is_shipped_is_found_by_its_gpus_name(gpu):
    with warnings.catch_warnings(action="error"):
        assert Crossover.for_gpu(gpu).gpu == gpu


@pytest.mark.parametrize("path", sorted(SHIPPED.iterdir()), ids=lambda path: path.stem)
def test_what_is_shipped_is_named_for_its_gpu_and_favours_the_kernel_for_small_pieces(path):
    shipped = Crossover.load(path)
    assert path.name == f"{slug(shipped.gpu)}.json"
    assert shipped.best(4 * KIB, 4096) != "dma"
    dma, best = (shipped.time_us(path, 4 * KIB, 4096) for path in ("dma", "kernel"))
    assert dma / best >= 5
