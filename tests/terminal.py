"""What every benchmark's output has to be, for its own tests to import: their fixture `run` is
(folder, what was printed)."""


def test_the_table_stays_within_a_terminal(run):
    printed = run[1]
    widest = max(printed.splitlines(), key=len)
    assert len(widest) <= 80, widest
    assert "…" not in printed, printed
