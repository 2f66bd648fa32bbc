"""The compilation of FlexAttention by the CUDA accelerator, tested without a GPU by tracing
alone."""

import gc
import os
import subprocess
import sys
import weakref
from types import SimpleNamespace

import pytest
import torch

from debubble.accelerator import CaptureError
from debubble.contract.flex.flex_call import FlexCall
from debubble.cuda.flex_attention import CudaFlexAttention
from debubble.cuda.guard.watch import SyncWatch
from debubble.cuda.trace.marks import Marks

from .paged_batch import PagedBatch, expect_close

HOST = SimpleNamespace(device=torch.device("cpu"))


class Compiler:
    """A FlexAttention that PyTorch traces but does not compile to kernels: it runs on the CPU, and
    counts its compilations."""

    def __init__(self) -> None:
        self.capturing = False
        self.flex_attention = CudaFlexAttention(lambda: self.capturing, "eager", "cpu")

    def attend(self, batch: PagedBatch, mask_mod=None, scale=None) -> torch.Tensor:
        block_mask = batch.block_mask(mask_mod)
        return self.flex_attention(**batch.arguments(), block_mask=block_mask, scale=scale)

    def compiled_by(self, work) -> int:
        before = self.flex_attention.compilations
        work()
        return self.flex_attention.compilations - before


@pytest.fixture(scope="module")
def compiler():
    compiler = Compiler()
    compiler.attend(PagedBatch(HOST, 10))
    return compiler


@pytest.fixture
def batch():
    return PagedBatch(HOST, 10)


def test_numbers_of_tokens_are_compiled_in_four_kinds():
    """FlexAttention compiles once for each of four kinds of token counts: one token, one group (2
    to 16 tokens), several groups of less than 128 tokens, and 128 tokens."""
    compiler = Compiler()
    compiled = []
    for num_tokens in (1, 2, 10, 16, 17, 40, 127, 128):
        batch = PagedBatch(HOST, num_tokens)
        compiled.append(compiler.compiled_by(lambda batch=batch: compiler.attend(batch)))
        expect_close(compiler.attend(batch), batch.expected())
    assert compiled == [1, 1, 0, 0, 1, 0, 0, 1]


def test_modes_that_are_on_compile_nothing_anew(compiler, batch):
    """A call under a recording's marks, a sync watch and a device context compiles nothing,
    although PyTorch's compiler compiles again if such modes change."""

    def attend_under_modes():
        with Marks().in_this_thread(), SyncWatch(), torch.device("meta"):
            compiler.attend(batch)

    assert compiler.compiled_by(attend_under_modes) == 0


def test_what_was_compiled_under_modes_serves_without_them(compiler, batch):
    def mask_mod(b, h, q, slot):
        return slot <= q

    def attend_under_modes():
        with Marks().in_this_thread(), SyncWatch():
            compiler.attend(batch, mask_mod)

    assert compiler.compiled_by(attend_under_modes) == 1
    assert compiler.compiled_by(lambda: compiler.attend(batch, mask_mod)) == 0


def test_the_modes_are_on_again_behind_the_call(compiler, batch):
    with torch.device("meta"):
        compiler.attend(batch)
        assert torch.empty(1).is_meta


def test_kinds_do_not_use_up_one_limit(compiler, batch):
    """Two masks can each be compiled even if PyTorch's limit is one compilation of a function: each
    has a function of its own. (By default PyTorch refuses after eight.)"""
    masks = [lambda b, h, q, slot: slot < q, lambda b, h, q, slot: slot > q]
    with torch._dynamo.config.patch(recompile_limit=1):
        for mask_mod in masks:
            assert compiler.compiled_by(lambda m=mask_mod: compiler.attend(batch, m)) == 1


def test_scales_are_constants(compiler, batch):
    for scale in (0.25, 0.5):
        compiler.attend(batch, scale=scale)
        expect_close(compiler.attend(batch, scale=scale), batch.expected(scale=scale))


def test_a_first_compilation_during_a_capture_is_refused(batch):
    compiler = Compiler()
    compiler.capturing = True
    with pytest.raises(CaptureError, match="compiled for 10 query tokens"):
        compiler.attend(batch)
    assert compiler.flex_attention.compilations == 0


def test_a_compilation_that_nobody_foresaw_is_refused_too(monkeypatch, batch):
    monkeypatch.setattr(FlexCall, "specialisation", lambda call: "always the same")
    compiler = Compiler()
    compiler.attend(batch)
    compiler.capturing = True
    compiler.attend(batch)
    with pytest.raises(CaptureError, match="compiled for 40 query tokens"):
        compiler.attend(PagedBatch(HOST, 40))
    compiler.capturing = False
    assert compiler.compiled_by(lambda: compiler.attend(PagedBatch(HOST, 40))) == 1


def test_an_error_of_the_mask_is_told_as_it_is(compiler, batch):
    def mask_mod(b, h, q, slot):
        raise KeyError("of the mask")

    with pytest.raises(Exception, match="of the mask"):
        compiler.attend(batch, mask_mod)


@pytest.fixture(scope="module")
def first_in_a_process():
    """Returns the output of a new process that calls FlexAttention with tables of three sizes, and
    then makes a Categorical with a negative probability. The first compilation of a process is
    special."""
    code = """
import torch
from tests.accelerators.test_flex_compiler import HOST, Compiler, PagedBatch
compiler, batch = Compiler(), PagedBatch(HOST, 10)
for size in (4, 5, 9):
    table = torch.zeros(size)
    compiler.attend(batch, lambda b, h, q, slot: table[q % 4] <= slot)
print("compilations:", compiler.flex_attention.compilations)
torch.distributions.Categorical(torch.tensor([-1.0, 2.0]))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return run.stdout + run.stderr


@pytest.mark.deep
def test_sizes_that_are_equal_by_chance_may_differ_the_next_time(first_in_a_process):
    """A table of size 4 is not taken for a fixed size because there are also four heads:
    FlexAttention compiles once for sizes 4, 5 and 9."""
    assert "compilations: 1\n" in first_in_a_process


def test_distributions_go_on_to_check_their_arguments(first_in_a_process):
    """Distributions still check their arguments after the first compilation of a process. PyTorch's
    compiler would switch these checks off for the whole process."""
    assert "ValueError: Expected parameter probs" in first_in_a_process


@pytest.mark.parametrize("before", [None, "/mine"])
def test_triton_keeps_its_folder_of_compiled_kernels(monkeypatch, batch, before):
    """A compilation leaves the folder in which Triton looks for compiled kernels as it was. PyTorch
    sets another folder, but not always, so a later start would look in the wrong one."""
    monkeypatch.delenv("TRITON_CACHE_DIR", raising=False)
    if before is not None:
        monkeypatch.setenv("TRITON_CACHE_DIR", before)
    seen = []

    def sets_another(graph, inputs):
        seen.append(os.environ.get("TRITON_CACHE_DIR"))
        os.environ["TRITON_CACHE_DIR"] = "/another"
        return graph.forward

    compiler = Compiler()
    compiler.flex_attention = CudaFlexAttention(lambda: False, sets_another, "cpu")
    expect_close(compiler.attend(batch), batch.expected())
    assert seen == [before]
    assert os.environ.get("TRITON_CACHE_DIR") == before


def test_layers_of_a_step_are_looked_at_once(compiler, batch, monkeypatch):
    """FlexAttention checks the arguments once for three layers with the same mask, since a check
    takes the host longer than a launch."""
    block_mask, looked_at = batch.block_mask(None), []
    of = FlexCall.of
    monkeypatch.setattr(FlexCall, "of", lambda *args: looked_at.append(1) or of(*args))
    for _ in range(3):
        out = compiler.flex_attention(**batch.arguments(), block_mask=block_mask, scale=None)
        expect_close(out, batch.expected())
    assert len(looked_at) == 1


def test_other_arguments_are_looked_at_though_the_mask_is_the_same(compiler, batch):
    block_mask, arguments = batch.block_mask(None), batch.arguments()
    compiler.flex_attention(**arguments, block_mask=block_mask, scale=None)
    too_many = PagedBatch(HOST, 40).arguments() | {"key": arguments["key"]}
    with pytest.raises(ValueError, match=r"the block mask was made for|don't cover 40"):
        compiler.flex_attention(
            **(too_many | {"value": arguments["value"]}), block_mask=block_mask, scale=None
        )
    scaled = compiler.flex_attention(**arguments, block_mask=block_mask, scale=0.01)
    plain = compiler.flex_attention(**arguments, block_mask=block_mask, scale=None)
    assert not torch.allclose(scaled, plain, atol=1e-3)


def test_nothing_of_a_call_is_kept_alive(compiler):
    batch = PagedBatch(HOST, 10)
    block_mask = batch.block_mask(None)
    kept = [*map(weakref.ref, (block_mask, batch.query, batch.key, batch.value, batch.doc_ids))]
    compiler.flex_attention(**batch.arguments(), block_mask=block_mask, scale=None)
    del batch, block_mask
    gc.collect()
    assert [reference() for reference in kept] == [None] * len(kept)
