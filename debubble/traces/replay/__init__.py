"""Replays a trace without a wait, a copy or something that the host does, to predict its time."""
