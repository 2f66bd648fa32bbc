"""A block without compilations: nested, in threads, around an exception, and as a marker."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

import debubble
from debubble import UnexpectedCompile
from debubble.contract.compiles import Compiled
from debubble.cuda import compilations
from debubble.cuda.compilations import Compilations
from debubble.rules.specialization import key_of

pytest.importorskip("triton")
import triton
import triton.language as tl


@triton.jit
def _filled(out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 1.0, at < n)


class Kernel:
    """A kernel that is only counted, with what Triton keeps of it: the compiled ones by device."""

    def __init__(self):
        self.device_caches = {}


def kernel():
    """Returns a kernel that was never launched."""
    return triton.jit(_filled.fn)


@pytest.fixture
def launch(accelerator):
    out, made = torch.empty(64, device=accelerator.device), kernel()
    return lambda n, block=16: accelerator.launch(made, (1,), out, n, BLOCK=block)


def test_a_known_key_passes_and_a_new_one_is_refused_with_its_line_and_argument(launch):
    launch(16)
    with debubble.no_compiles():
        launch(32)
        with pytest.raises(UnexpectedCompile, match="n: no multiple of 16, was a multiple") as at:
            launch(17)
    assert at.value.source.file == __file__ and at.value.kernel == "_filled"


def test_a_refused_key_stays_unknown(launch):
    launch(16)
    for _ in range(2):
        with debubble.no_compiles(), pytest.raises(UnexpectedCompile):
            launch(1)


def test_a_first_launch_is_refused(launch):
    with debubble.no_compiles(), pytest.raises(UnexpectedCompile, match="its first call"):
        launch(16)


def test_each_of_two_kernels_of_one_function_is_compiled(accelerator):
    """A notebook's cell that is run again makes a second kernel."""
    out = torch.empty(64, device=accelerator.device)
    first, second = kernel(), kernel()
    accelerator.launch(first, (1,), out, 16, BLOCK=16)
    with debubble.no_compiles(), pytest.raises(UnexpectedCompile, match="its first call"):
        accelerator.launch(second, (1,), out, 16, BLOCK=16)


def test_a_kernel_at_the_place_of_one_that_was_freed_is_new():
    compiled, made = Compiled(), Kernel()
    place = id(made)
    assert compiled.misses(made, "first", ()) == "its first call" and compiled.keys_of(made)
    del made
    others = [Kernel() for _ in range(100)]
    assert not any(map(compiled.keys_of, others)), place


def test_a_warm_up_inside_is_allowed_and_the_rule_holds_after_it(launch):
    with debubble.no_compiles():
        with debubble.allow_compiles():
            launch(16)
        with debubble.no_compiles():
            launch(16)
        with pytest.raises(UnexpectedCompile):
            launch(1)


def test_a_wait_is_another_rule(launch, accelerator):
    launch(16)
    with debubble.no_compiles():
        torch.ones(1, device=accelerator.device).item()
    with debubble.no_host_syncs():
        launch(1)
    with debubble.no_host_syncs(), debubble.no_compiles(), pytest.raises(UnexpectedCompile):
        launch(17)


def test_the_rule_ends_with_an_exception(launch):
    with pytest.raises(KeyError), debubble.no_compiles():
        raise KeyError
    launch(16)


def test_a_thread_that_the_block_starts_is_refused_and_others_are_not(launch):
    launch(16)
    began, go = threading.Event(), threading.Event()
    other = threading.Thread(target=lambda: (began.set(), go.wait(), launch(17)))
    other.start()
    began.wait()

    def in_the_block():
        with pytest.raises(UnexpectedCompile):
            launch(1)

    with pytest.raises(UnexpectedCompile), debubble.no_compiles():
        go.set()
        other.join()
        inside = threading.Thread(target=in_the_block)
        inside.start()
        inside.join()


def test_a_task_of_a_pool_is_refused(launch):
    with ThreadPoolExecutor(1) as pool, debubble.no_compiles():
        assert isinstance(pool.submit(launch, 16).exception(), UnexpectedCompile)


def test_a_recording_names_the_key_only_when_asked(launch):
    with debubble.record() as timeline:
        launch(16)
    assert not [event for event in timeline.events if event.kind == "compile"]
    with debubble.record(also=["compile"]) as timeline:
        launch(32)
        launch(17)
    (event,) = [event for event in timeline.events if event.kind == "compile"]
    assert (event.name, event.call) == ("_filled", "n: no multiple of 16, was a multiple of 16")
    with pytest.raises(ValueError, match="'jit'"), debubble.record(also=["jit"]):
        pass


def test_the_marker_fails_a_test_that_compiles(tmp_path):
    suite = tmp_path / "test_it.py"
    suite.write_text(
        "import pytest, torch\n"
        "f = torch.compile(lambda x: x + 1)\n"
        "x = torch.ones(4, device='cuda')\n"
        "@pytest.mark.no_compiles\ndef test_new():\n    f(x)\n"
        "def test_free():\n    f(x)\n"
        "@pytest.mark.no_compiles\ndef test_known():\n    f(x)\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--as-cuda"]
    ran = subprocess.run([*command, str(suite)], capture_output=True, text=True)
    assert "1 failed, 2 passed" in ran.stdout, ran.stdout
    assert "is compiled at test_it.py:6" in ran.stdout


VALUES = (0, 1, 2, 15, 16, 17, -16, 2**31 - 1, 2**31, 2**63, True, False, None, 1.5)


SPECIAL = pytest.importorskip("triton._C.libtriton").native_specialize_impl
BACKEND = pytest.importorskip("triton.backends.nvidia.compiler").CUDABackend


@pytest.mark.parametrize("options", [{}, {"do_not_specialize": ["x"]}])
def test_sims_keys_differ_where_tritons_own_do(options):
    values = [*VALUES, torch.ones(4), torch.ones(5)[1:], torch.ones(4).half()]
    ours = [sims_key(value, options) for value in values]
    theirs = [SPECIAL(BACKEND, value, False, not options, True) for value in values]
    for mine, its in zip(ours, theirs, strict=True):
        assert [mine == other for other in ours] == [its == other for other in theirs], its


MEMORY = [
    torch.ones(5).to(getattr(torch, dtype))[at:]
    for at in (0, 1)
    for dtype in ("float32", "bfloat16", "float64", "int64", "uint8", "bool", "float8_e4m3fn")
]


@pytest.mark.parametrize("value", [*VALUES, *MEMORY], ids=str)
def test_what_triton_tells_its_hook_has_the_words_of_sims_key(value):
    type_, attribute = SPECIAL(BACKEND, value, False, True, True)
    constant = type_ == "constexpr"
    told = {
        "signature": {"x": type_},
        "constants": {(0,): value} if constant else {},
        "configs": [{(0,): BACKEND.parse_attr("" if constant else attribute or "")}],
    }
    assert compilations.key_of(told) == sims_key(value, {})


def sims_key(value, options):
    def takes(x):
        pass

    made = SimpleNamespace(fn=takes, kwargs=options)
    return key_of(Hashed(made), (value,), {}, torch.Tensor.data_ptr)


class Hashed:
    """A kernel as `key_of` reads one."""

    def __init__(self, made):
        vars(self).update(vars(made))


def test_a_gpus_hook_gives_the_same_words():
    told = {
        "signature": {"out": "*fp32", "n": "i32", "m": "constexpr", "BLOCK": "constexpr"},
        "constants": {(2,): 1, (3,): 64},
        "configs": [{(0,): [["tt.divisibility", 16]]}],
        "num_warps": 4,
    }
    seen, function = Compilations(), SimpleNamespace(name="filled", jit_function=Kernel())
    marks = []

    def begin(name, missed):
        marks.append((name, missed))
        return nullcontext()

    seen.begin = begin
    seen._triton_begins(fn=function, compile=told)
    seen._ends()
    told["configs"] = [{(0,): 16, (1,): 16}]
    seen._triton_begins(fn=function, compile=told)
    assert marks == [
        ("filled", "its first call"),
        ("filled", "n: a multiple of 16, was no multiple of 16"),
    ]
    with debubble.no_compiles(), pytest.raises(UnexpectedCompile, match="num_warps: 8, was 4"):
        seen._triton_begins(fn=function, compile={**told, "num_warps": 8})
    warm_before = SimpleNamespace(name="filled", jit_function=Kernel())
    warm_before.jit_function.device_caches[0] = ({"its key": "compiled"}, "its target")
    seen._triton_begins(fn=warm_before, compile=told)
    assert "compiled before debubble first looked" in marks[-1][1]
