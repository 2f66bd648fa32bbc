"""`torch.cuda` on sim: streams, events, graphs, memory figures, and names that sim refuses."""
