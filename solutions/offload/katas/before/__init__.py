"""Parts of the solution as one would write them first: right, and slower than need be.

Each has the name and the signature of the part that it became.
"""
