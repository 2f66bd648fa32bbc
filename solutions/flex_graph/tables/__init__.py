"""The tables of a step: whose a token is, where a block lies in a request, which pages a group of
tokens reads. step_tables makes them anew and waits, direct_build makes them by PyTorch's operators,
device_build by kernels, in memory that stays."""
