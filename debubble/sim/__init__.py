"""sim: an accelerator that this project simulates on the CPU, with CUDA's rules and a modelled clock."""
