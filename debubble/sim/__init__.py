"""sim: an accelerator simulated on the CPU, with CUDA's rules and a modelled clock."""
