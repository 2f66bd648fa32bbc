"""Processes of one thread each: libraries that compute start no threads of their own in them.

Beside others, such threads would only stand in each other's way. And a process that forks is better
without any: a lock that one of them holds then stays locked in the new process for good.
"""

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Of the environment that such a process is started with."""
