"""What others rely on: public names and signatures (learners' code and notebooks), claims, tests by
their ids, counts, and what chapters show.

The JSON files hold it, and test_snapshot compares. Who changes some of it on purpose writes that
part again with `python -m tests.snapshot PART`.
"""
