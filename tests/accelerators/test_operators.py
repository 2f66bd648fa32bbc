"""The tool that counts what the operators of PyTorch's database do to a device."""

import pytest

from .operators import COUNTS, Difference, compare, in_processes

pytest.importorskip("expecttest", reason="PyTorch's database of operators needs expecttest")


def test_operators_that_wait_are_counted_beside_those_that_do_not(accelerator):
    rows = in_processes(["acos", "nonzero"], accelerator.name, processes=1)
    waits = {name: [sample[0] for sample in row] for name, row in rows.items()}
    assert {*waits["acos"]} == {0} and {*waits["nonzero"]} == {1}


@pytest.mark.deep
def test_an_operator_that_ends_its_process_leaves_the_others_their_rows(accelerator):
    names = ["acos", "no operator", "trace"]
    rows = in_processes(names, accelerator.name, processes=1)
    assert [*rows] == names and rows["no operator"] == ["aborted"]
    assert all(len(sample) == len(COUNTS) for sample in rows["acos"] + rows["trace"])


def test_a_wait_on_either_side_alone_is_a_difference():
    here = {"a": [[0, 0, 0, 0, 1, 3], [1, 0, 0, 1, 0, 1]], "b": [[0] * 6], "c": ["ValueError"]}
    there = {"a": [[0, 0, 0, 0, 2, 9], [1, 0, 0, 1, 0, 2]], "b": [[1] + [0] * 5], "c": ["aborted"]}
    assert compare(here, there) == ([Difference("b", 0, {}, {"host_syncs": 1})], 2)
