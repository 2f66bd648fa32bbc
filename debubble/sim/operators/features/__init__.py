"""What of PyTorch beside its operators knows sim: autocast, generators, streams, layers, files."""
