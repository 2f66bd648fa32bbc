"""Tests of every benchmark's output, imported by the benchmark's own tests. Their fixture `run`
returns (folder, printed text)."""


def test_the_table_stays_within_a_terminal(run):
    printed = run[1]
    widest = max(printed.splitlines(), key=len)
    assert len(widest) <= 80, widest
    assert "…" not in printed, printed
