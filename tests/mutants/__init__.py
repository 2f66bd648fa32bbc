"""Mutants of the systems and the engine: one small edit of their source each, as a hand slips, and
a test of the system has to fail. `python -m tests.mutants gdn` tries a sample. (Of the exercises'
solutions `debubble check --mutants` makes the same edits, and runs their katas.)

`making` finds the edits, `judging` runs the tests on a copy of the tree, `verdicts` holds what
passes against `survivors.toml`, where each has its reason.
"""
