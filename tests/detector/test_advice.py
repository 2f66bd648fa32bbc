"""Advice on what to write instead: right for each line of `advised`, and for PyTorch's own
lines."""

import re
from pathlib import Path

import pytest
import torch

import debubble
from debubble.contract.source_line import SourceLine
from debubble.detector.findings import Finding
from debubble.detector.instead import REMEDIES, instead_of
from debubble.detector.loops import Loops
from debubble.recording.recording import elapsed

from . import advised

FILE = Path(advised.__file__)
SAYS = re.compile(r"# instead: (.*)")
PARTS = ["train", "index", "generate"]


@pytest.fixture(scope="module")
def found(accelerator):
    """Returns {function of advised.py: the detector's findings when it ran}. Loops are watched, so
    that set-up is known."""
    findings = {}
    for part in PARTS:
        with debubble.find_host_syncs() as report:
            report.loops = loops = Loops(elapsed)
            names = {"__name__": "advised"}
            with loops.noted():
                exec(loops.compile(FILE.read_text(), str(FILE)), names)
                names[part](accelerator.device)
        findings[part] = report.findings
    return findings


def lines_of(part):
    text = FILE.read_text().splitlines()
    first = text.index(f"def {part}(device):")
    last = next((n for n in range(first + 1, len(text)) if text[n][:4] in ("def ", "clas")), None)
    return {n + 1: text[n] for n in range(first, last or len(text))}


@pytest.mark.parametrize("part", PARTS)
def test_the_advice_is_the_one_for_the_line(found, part):
    wrong = []
    for finding in found[part]:
        wanted = SAYS.search(lines_of(part).get(finding.source.line, ""))
        said = finding.instead or "nothing"
        if wanted is None or not said.startswith(wanted[1].strip()):
            wrong.append(f"{finding.source}\n    {finding.call} of {finding.operator}: {said}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("part", PARTS)
def test_each_line_of_the_text_waits(found, part):
    told = {number for number, line in lines_of(part).items() if SAYS.search(line)}
    assert told == {finding.source.line for finding in found[part]}


@pytest.mark.parametrize(
    ("text", "inside", "instead"),
    [
        ("scaler.step(opt)", "torch/amp/grad_scaler.py: if not sum(v.item()", "use a fused opti"),
        ("opt.step()", "torch/optim/adam.py: step = _get_value(step_t)", "keep the optimizer's"),
        (
            "pad_packed_sequence(o)",
            "torch/nn/utils/rnn.py: unsorted_indices.cpu()",
            "sort the sequ",
        ),
        ("y = enc(x)", "torch/nn/somewhere.py: if mask.any():", "`f` of torch waits each time"),
        ("loss = ddp(x)", "torch/nn/parallel/distributed.py: self.reducer._r()", "leave it: D"),
        ("loss = step(x)", "torch/nn/utils/clip_grad.py: if error_if_nonfinite and", "leave out"),
        ("trainer.train()", "transformers/trainer.py: torch.isnan(tr_loss_step)", "TrainingArgum"),
        ("metric.update(p)", "torchmetrics/a.py: _validation(preds)", "pass validate_args=False"),
        (
            "m.update(p)",
            "torchmetrics/utilities/checks.py: _check_retrieval_inputs(",
            "metric.cpu()",
        ),
        (
            "m.update(p)",
            "torchmetrics/utilities/data.py: torch.bincount(x)",
            "keep the predictions",
        ),
        ("trainer.train()", "transformers/trainer.py: grad_norm.item()", "log more rarely: Train"),
        (
            "trainer.train()",
            "transformers/masking_utils.py: padding_mask.all()",
            "give the model a ma",
        ),
        ("trainer.fit(m)", "lightning/pytorch/x.py: self._teardown()", "leave it: Lightning"),
        ("trainer.fit(m)", "lightning/pytorch/x.py: metrics['pbar'][n] = f(v)", "self.log(..., p"),
        ("trainer.train()", "safetensors/torch.py: tensor = tensor.to('cpu')", "put it into `with"),
    ],
)
def test_a_wait_inside_a_library_is_told_by_the_librarys_line(text, inside, instead):
    file, _, code = inside.partition(": ")
    library = SourceLine(f"/x/site-packages/{file}", 7, "f", code)
    line = SourceLine("train.py", 3, "<module>", text, inside=(library,))
    said = instead_of("value", "item", "_local_scalar_dense", line)
    assert said.startswith(instead)


def test_advice_may_contain_a_dictionary_and_names_only_what_is_read():
    file = "/x/site-packages/accelerate/utils/operations.py"
    library = SourceLine(file, 7, "f", "return tensor.to(device, non_blocking=non_blocking)")
    trainer = SourceLine("/x/site-packages/transformers/trainer.py", 7, "f", "for x in loader:")
    line = SourceLine("train.py", 3, "<module>", "trainer.train()", inside=(trainer, library))
    assert '{"non_blocking": True}' in instead_of("pinned_upload", "to(pinned)", "copy_", line)
    for remedy in REMEDIES:
        known = {"call", *re.compile(remedy.reads).groupindex}
        assert {*re.findall(r"\{(\w+)\}", remedy.instead)} <= known, remedy.instead


def test_no_advice_is_said_and_not_made_up():
    line = SourceLine("train.py", 3, "<module>", "w = torch.linalg.eigvals(x)")
    assert instead_of("value", "linalg_eigvals", "linalg_eig", line) is None


def test_a_wait_of_a_library_is_called_that_and_gets_no_advice_by_its_words():
    library = SourceLine("/x/site-packages/torchmetrics/a.py", 7, "f", "res = x[~torch.isnan(x)]")
    line = SourceLine("train.py", 3, "<module>", "print(auroc.compute())", inside=(library,))
    said = instead_of("value", "__getitem__(mask)", "nonzero", line)
    assert said.startswith("`f` of torchmetrics waits each time, and no option against it is known")
    saving = line._replace(code="vutils.save_image(y, 'y.png')")
    assert "a picture" in instead_of("download", "cpu", "copy_", saving)


@pytest.mark.parametrize(
    ("code", "waits", "instead"),
    [
        ("y.sum().backward()", ("pageable_upload", None, "copy_"), "make the index of the forward"),
        ("ids = torch.unique(ids)", ("value", "unique", "_local_scalar_dense"), "to count them"),
        ("n = ids.unique(dim=0)", ("value", "unique", "_local_scalar_dense"), "find the unique"),
    ],
)
def test_the_names_that_an_nvidia_gpu_gives_get_the_same_advice(code, waits, instead):
    assert instead_of(*waits, SourceLine("train.py", 3, "<module>", code)).startswith(instead)


def test_one_wait_of_a_run_without_loops_is_called_rare_in_a_librarys_line_alone():
    def said(file):
        inside = SourceLine(file, 7, "f", "if x.any():")
        line = SourceLine("train.py", 3, "<module>", "total = f(x)", inside=(inside,))
        return Finding("value", line, None, False, "__bool__", count=1).instead

    assert said("/x/site-packages/library/a.py").startswith("it comes once in this run")
    assert not said(torch.nn.functional.__file__).startswith("it comes once in this run")


@pytest.mark.parametrize(
    ("code", "count", "flags", "apart"),
    [
        ("print(x.max().item())", 1, {}, "once"),
        ("print(x)", 89, {}, "once"),
        ("f = lambda x: x.max().item()", 5, {}, None),
        ("[x.item() for x in y]", 5, {}, None),
        ("for x in y:\n    print(x.max().item())", 1, {"setup": True, "once": True}, None),
        ("for x in y:\n    print(x.max().item())", 1, {"after": True, "once": True}, None),
        ("for x in y:\n    x.max().item()", 4, {"setup": True}, "setup"),
        ("def f(n):\n    if n % 9 == 0:\n        x.max().item()", 1, {"setup": True}, None),
        ("def f():\n    x.max().item()", 1, {"once": True}, "once"),
        ("def f():\n    x.max().item()", 1, {}, None),
    ],
)
def test_a_call_belongs_to_no_step_by_its_place_in_the_code_and_the_run(
    tmp_path, code, count, flags, apart
):
    (tmp_path / "a.py").write_text(code)
    function = "f" if "def" in code else "<lambda>" if "lambda" in code else "<module>"
    line = SourceLine(str(tmp_path / "a.py"), len(code.splitlines()), function)
    assert Finding("value", line, None, False, count=count, **flags).apart == apart
