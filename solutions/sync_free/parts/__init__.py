"""Four parts of sites that are katas by themselves, and need no Triton."""
