"""A snapshot of what users rely on: public names and signatures (learners' code and notebooks),
claims, tests by their ids, counts, and the chapters' outputs.

The JSON files hold it, and test_snapshot compares. After an intended change, write that part again
with `python -m tests.snapshot PART`.
"""
