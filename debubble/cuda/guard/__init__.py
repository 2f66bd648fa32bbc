"""no_host_syncs on CUDA: who watches, in which threads, and what it refuses."""
