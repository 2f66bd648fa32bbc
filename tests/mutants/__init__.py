"""Mutants of the systems and the engine: each has one small edit of the source, such as a slip, and
a test of the system has to fail. `python -m tests.mutants gdn` tries a sample. (For solutions of
katas `debubble check --mutants` makes the same edits, and runs their katas.)

`making` finds the edits, `judging` runs the tests on a copy of the tree, and `verdicts` compares
the passing mutants with `survivors.toml`, where each has its reason.
"""
