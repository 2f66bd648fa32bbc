"""The effects of expressions on the device equal those measured on an H200.

There are three sets: the first one that the rules had to match, a larger one that was used to write
them, and one that was written after them.
"""

import pytest

import debubble

from .expressions import COPIES_AND_WAITS, Expression, measured_on_h200

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

GIVEN = measured_on_h200("nvidia-h200")
MORE = measured_on_h200("nvidia-h200-more")
UNSEEN = measured_on_h200("nvidia-h200-unseen")

NOT_AS_MEASURED = {
    "torch.nested.nested_tensor([x[0],x[1,:3]],layout=torch.jagged)": "PyTorch's jagged layout "
    "does not take a tensor class inside",
    "torch.nested.nested_tensor([x[0],x[1,:3]],layout=torch.jagged).to_padded_tensor(0.0)": "the "
    "same",
    "torch.nn.LSTM(5,3,device=D)(x)": "cuDNN packs the weights of a new LSTM into one buffer",
    "torch.linalg.solve(torch.eye(4, device=D), torch.ones(4, 1, device=D))": "one copy depends on "
    "the layout that the solver library wants",
}
"""The expressions that sim gets wrong, each with its reason."""

KEPT_BY_THE_DRIVER = {
    "torch.empty(4,5).copy_(x,non_blocking=True)",
    "pdst[:,:2].copy_(x[:,:2],non_blocking=True)",
    "pdst[:,0].copy_(x[:,0],non_blocking=True)",
}
"""Downloads into pageable memory: they call no function that synchronises, and still block the
host."""

SETS = pytest.mark.parametrize(
    "expressions", [GIVEN, MORE, UNSEEN], ids=["given", "more", "unseen"]
)
SHARE_OF_KERNEL_COUNTS = 0.9


@SETS
def test_counts_are_as_measured(expressions, accelerator):
    """Counts of all copies and waits equal the measured ones. Nine in ten counts of kernels do,
    since libraries split their work differently in each version."""
    wrong, kernels_right = {}, 0
    for expression in expressions:
        if accelerator.modelled and expression.text in NOT_AS_MEASURED:
            continue
        counts = expression.counts(accelerator)
        expected = expression.effects
        if any(counts[name] != expected[name] for name in COPIES_AND_WAITS):
            wrong[expression.text] = (expected, counts)
        kernels_right += counts["kernels"] == expected["kernels"]
    assert not wrong
    assert kernels_right / len(expressions) >= SHARE_OF_KERNEL_COUNTS


@SETS
def test_the_guard_refuses_exactly_what_makes_the_host_wait(expressions, accelerator):
    wrong = []
    for expression in expressions:
        if expression.text in NOT_AS_MEASURED:
            continue
        effects = expression.effects
        holds = effects["host_syncs"] or effects["h2d_pageable"]
        names = expression.prepare(accelerator)
        if is_refused(expression, names) != bool(holds or expression.text in KEPT_BY_THE_DRIVER):
            wrong.append(expression.text)
    assert not wrong


def is_refused(expression, names: dict) -> bool:
    try:
        with debubble.no_host_syncs():
            expression.run(names)
    except debubble.HostSyncError:
        return True
    return False


@pytest.mark.sim
@pytest.mark.parametrize(
    ("work", "effects"),
    [
        ("v.cumsum_(0)", {"kernels": 2}),
        ("torch.sort(x, out=(x.clone(), xi.clone()))", {"d2d": 4, "kernels": 3}),
        ("torch.histc(x, 4, min=0, max=1)", {"kernels": 2}),
        ("torch.bincount(xi[:0, 0], minlength=4)", {"kernels": 1}),
        ("h.sum(dtype=torch.float32)", {"kernels": 1}),
        ("torch.complex(x, x).conj().resolve_conj()", {"kernels": 2}),
        ("x[[True, False, True, False]] = 0", {"host_syncs": 1, "h2d_pageable": 1, "kernels": 1}),
        ("x.data = x * 2", {"kernels": 1}),
        ("x[xi[0, :2].int()]", {"kernels": 3}),
        ("x.t_()", {}),
    ],
)
def test_an_expression_goes_by_the_rule_of_its_kind(accelerator, work, effects):
    setup = (
        "import torch\nx = torch.ones(4, 5, device=D); xi = x.long(); v = x.view(-1); h = x.half()"
    )
    counts = Expression(work, setup, {}).counts(accelerator)
    assert {name: count for name, count in counts.items() if count} == effects
