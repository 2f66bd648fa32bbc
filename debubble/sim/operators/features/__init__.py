"""Parts of PyTorch other than operators on sim: autocast, generators, streams, layers, files."""
