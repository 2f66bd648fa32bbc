"""no_host_syncs on CUDA: which calls are watched, in which threads, and what is refused."""
