"""Four pieces of sites that are exercises by themselves, and need no Triton."""
