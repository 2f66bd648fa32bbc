"""The common checks: each finds its own kind of mistake, and says what is to blame."""

import runpy
from itertools import combinations
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

from debubble.accelerator import current
from debubble.exercises import Common, KataFailure, Step
from debubble.exercises.common.checks import CHECKS
from debubble.exercises.common.names import TESTS
from debubble.exercises.common.values import plain
from debubble.exercises.kata_files.catalogue import Catalogue
from debubble.exercises.proof import check

BUFFERS = {}


def right(values):
    pinned = values.clone().pin_memory() if current().pin_memory else values
    return pinned.to(current().device, non_blocking=True) + 1


class AsLongAsTheLongest:
    def __init__(self):
        self.size = 0

    def __call__(self, values):
        self.size = max(self.size, len(values))
        return right(torch.nn.functional.pad(values, (0, self.size - len(values))))


def one_buffer(values):
    kept = BUFFERS.setdefault(len(values), torch.zeros(len(values), device=current().device))
    return kept.copy_(right(values))


def the_callers_memory(values):
    return values.to(current().device, non_blocking=True) + 1


def writes_to_the_argument(values):
    return right(values.add_(1).sub_(1))


class FirstStream:
    def __init__(self):
        self.stream = current().current_stream()

    def __call__(self, values):
        with self.stream:
            return right(values)


class Keeps:
    def __init__(self):
        self.all = []

    def __call__(self, values):
        self.all.append(values)
        return right(values)


def element_by_element(values):
    result = right(values)
    for place in range(len(result)):
        result[place : place + 1].mul_(1)
    return result


def each_with_each(values):
    for _ in values:
        for _ in values:
            pass
    return right(values)


def pins_everywhere(values):
    return values.pin_memory().to(current().device, non_blocking=True) + 1


def needs_a_value(values):
    return right(values) + values[0].item() * 0


def always_wrong(values):
    return right(values) + 1


MISTAKES = {
    "steps": (AsLongAsTheLongest, "after f(9 numbers)"),
    "stream": (FirstStream, "made while another stream was current"),
    "results": (lambda: one_buffer, "to have memory of its own"),
    "objects": (lambda: the_callers_memory, "The caller changes its lists"),
    "memory": (Keeps, "objects after 6 rounds"),
    "launches": (lambda: element_by_element, "Compute all items by the same launches"),
    "work": (lambda: each_with_each, "grows with the square"),
    "pinning": (lambda: pins_everywhere, "asked for pinned memory all the same"),
}


def steps(accelerator):
    sizes = (9, 1, 0, 4)
    values = [torch.arange(float(size)) for size in sizes]
    return [Step(f"f({len(v)} numbers)", (v,), v + 1) for v in values]


def run(name, make):
    common = Common(
        make=lambda kata, accelerator: kata.make(),
        steps=steps,
        sized=lambda accelerator, n: Step("", (torch.ones(n),), None),
    )
    own = ModuleType(__name__)
    code = SimpleNamespace(make=make, loaded=[own])
    code.loaded_again = lambda: code
    CHECKS[name](code, current(), common)


@pytest.fixture(autouse=True)
def begin():
    BUFFERS.clear()
    yield
    current().synchronize()


def test_each_check_has_a_test_and_a_mistake():
    assert [*CHECKS] == [*TESTS] == [*MISTAKES]


@pytest.mark.parametrize("name", CHECKS)
def test_right_code_passes_each_check(name):
    run(name, lambda: right)


@pytest.mark.parametrize("name", MISTAKES)
def test_each_check_finds_its_mistake(name):
    make, words = MISTAKES[name]
    if name == "stream" and not current().modelled:
        pytest.skip("only sim proves that nothing orders two streams")
    with pytest.raises(KataFailure, match=r".") as failure:
        run(name, make)
    assert words in " ".join(str(failure.value).split())


def test_an_argument_is_not_written_to():
    with pytest.raises(KataFailure, match="to be left alone"):
        run("objects", lambda: writes_to_the_argument)


@pytest.mark.parametrize("name", ["stream", "results", "objects", "pinning"])
def test_what_a_check_adds_is_not_blamed_for_code_that_is_wrong_without_it(name):
    with pytest.raises(KataFailure) as failure:
        run(name, lambda: always_wrong)
    text = str(failure.value)
    assert "Expected what f(9 numbers) returns to be" in text
    assert "stream" not in text and "caller" not in text and "pinned" not in text


def test_an_error_names_the_call():
    with pytest.raises(IndexError) as failure:
        run("steps", lambda: needs_a_value)
    assert failure.value.__notes__ == ["It came from f(0 numbers)."]


def test_a_kata_has_the_checks_or_says_why_not(workbook):
    workbook.edit("katas/katas.toml", 'without = ["all: it adds numbers up"]\n', "")
    problems = [v.problem for v in check.check(workbook.catalogue, "sim") if not v.holds]
    assert len(problems) == 1 and "defines no COMMON, the inputs of the common" in problems[0]


def test_the_reason_for_a_check_that_is_left_out_is_printed(workbook):
    notes = [verdict.note for verdict in check.check(workbook.catalogue, "sim")]
    assert "tiny/add_up is tested without `all`: it adds numbers up" in notes


@pytest.mark.parametrize("without", ["alll: a typing error", "stream:", "stream"])
def test_a_reason_names_a_check(workbook, without):
    workbook.edit("katas/katas.toml", "all: it adds numbers up", without)
    problem = r"write `name: reason`, with one of all, steps, stream"
    with pytest.raises(Exception, match=problem):
        _ = workbook.catalogue.katas


ROOT = Path(__file__).resolve().parents[2]
KATAS = [k for k in Catalogue(ROOT).katas if "\nCOMMON = " in k.test_path.read_text()]


def sizes_of(value):
    """Returns all that a cache by sizes would know of a value: lengths, shapes and types."""
    value = plain(value)
    if isinstance(value, torch.Tensor | set):
        return type(value), tuple(value.shape) if isinstance(value, torch.Tensor) else len(value)
    if isinstance(value, tuple):
        return tuple(map(sizes_of, value))
    return type(value)


def same(one, other):
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.shape == other.shape and torch.equal(one.cpu(), other.cpu())
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return one is other or (not isinstance(one, torch.Tensor) and one == other)


@pytest.mark.parametrize("kata", KATAS, ids=lambda kata: kata.name)
def test_two_steps_have_the_same_sizes_and_other_numbers(kata):
    """A result that is kept by the sizes of a step is then wrong in one of them."""
    steps = runpy.run_path(str(kata.test_path))["COMMON"].steps(current())
    assert any(
        sizes_of(one.arguments) == sizes_of(other.arguments)
        and not same(plain(one.expected), plain(other.expected))
        for one, other in combinations(steps, 2)
    )
