"""`torch.cuda` on sim: streams, events, graphs, figures, and what can only be refused."""
