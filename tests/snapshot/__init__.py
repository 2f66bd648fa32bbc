"""What must stay while files move: public names, claims, tests, counts, and what chapters show.

The JSON files say how it was, and `python -m tests.snapshot` writes them. test_snapshot compares.
This folder goes when the move is over.
"""
