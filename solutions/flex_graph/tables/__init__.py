"""The tables of a step: the request of each token, the page of each block, and the pages that a
group of tokens reads.

step_tables makes new tables and waits. direct_build makes them with PyTorch's operators,
device_build with kernels; both write to fixed addresses.
"""
