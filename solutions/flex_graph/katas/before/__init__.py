"""Parts of the solution as one would write them first: right in each step, but wrong once a graph
replays them or a larger batch comes.

Each has the name and the signature of the part that it became.
"""
