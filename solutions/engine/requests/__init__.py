"""Requests, the batches that they are scheduled in, and workloads of them."""
